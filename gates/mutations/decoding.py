"""Decoding: drafts, batches, samplers and verifiers of transcripts with one mistake each."""

from gnomon.decode.generate import Generation
from gnomon.gates.faults import drafts, neighbours, samplers, transcripts
from gnomon.gates.mutations.mutation import Mutation, only
from gnomon.reference.protocol import F32

GENERATION = "Only speculative asks for generations. "


class FirstUnseen(Generation):
    """The first guess of a draft is taken without a look."""

    def _draw(self, logits: F32, draft: list[int]) -> list[int]:
        if not draft:
            return super()._draw(logits, draft)
        text = self.text
        text.draw(logits[0])
        if text.reason:
            return text.ids[-1:]
        text.ids[-1] = draft[0]
        return [draft[0], *super()._draw(logits[1:], draft[1:])]


class DrafterTrimmed(Generation):
    """The drafter is shown the text without its last id."""

    def _draft(self) -> list[int]:
        text = self.text
        limit = min(self.draft_tokens, text.room - 1)
        if self.drafter is None or not text.ids or limit < 1:
            return []
        return self.drafter.draft(text.known[:-1], limit, text.request.sampling)[:limit]


MUTATIONS = (
    Mutation(
        "M29 spec_unverified_first", "the first guess is accepted unseen", "drafter", drafts.using(FirstUnseen),
        *only("speculative"), GENERATION + "A draft that is wrong at its first id shows it: one row more is kept.",
        "embed, position 7", "draft_wrong_at_first",
    ),
    Mutation(
        "M30 spec_no_rollback", "recurrent layers keep rejected rows", "drafter", drafts.recurrent_rows_stay,
        *only("speculative"), GENERATION + "Ids go wrong later or never; the state is wrong after the round.",
        "blocks.2.delta.conv_out, position 9", "draft_wrong_at_third",
    ),
    Mutation(
        "M31 spec_draft_trim_extra", "the drafter has lost the last id", "drafter", drafts.using(DrafterTrimmed),
        *only("speculative"), GENERATION + "No byte of the text changes; right drafts are no longer accepted.",
        says="guesses accepted",
    ),
    Mutation(
        "M32 spec_eos_missed", "a stop id inside a draft is not seen", "drafter", drafts.no_stop, *only("speculative"),
        GENERATION, says="expected the text to end after",
    ),
    Mutation(
        "X12 spec_one_too_many", "one id too many is accepted", "drafter", drafts.one_too_many, *only("speculative"),
        GENERATION, "embed, position 9", "draft_wrong_at_third",
    ),
    Mutation(
        "X13 spec_stale_rows", "no rejected row is taken back", "drafter", drafts.rows_stay, *only("speculative"),
        GENERATION, "embed, position 6", "draft_wrong_at_third",
    ),
    Mutation(
        "X14 spec_sampled_late", "guessed rows are sampled a position late", "drafter", drafts.late,
        *only("speculative"),
        GENERATION + "Greedy texts do not read the position.", says="sampled",
    ),
    Mutation(
        "X15 batch_rows_off_by_one", "rows of a batch go to the next slot", "batch", neighbours.rows_to_the_next,
        *only("batch"), "Only batch asks for batches.", says="text 0: id",
    ),
    Mutation(
        "X16 sampler_position", "the sampler draws with the next position", "sampler", samplers.next_position,
        *only("sampler"), "The sampler of the subject is asked by its own gate alone; the others hold decoding to that "
        "of the contract.", says="position=0: token",
    ),
    Mutation(
        "X17 sampler_tie", "of equal weights the highest id comes first", "sampler", samplers.highest_id_first,
        *only("sampler"), "As X16.", says="sample_tied",
    ),
    Mutation(
        "X18 transcript_digests", "a verifier does not compare digests", "transcript verifier",
        transcripts.lax(digests=0), *only("transcript"), "Only transcript asks for a verifier.",
        says="a digest: accepted",
    ),
    Mutation(
        "X19 transcript_chain", "a verifier does not check the chain", "transcript verifier",
        transcripts.lax(chain=False), *only("transcript"), "Only transcript asks for a verifier.",
        says="max_tokens edited in the text: accepted",
    ),
)  # fmt: skip
