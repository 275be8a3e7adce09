"""What only long steps, files of quantised weights, a GPT-2, arrays outside of an engine, or a node reach."""

from collections.abc import Sequence

from gnomon.gates.faults import formats, nodes
from gnomon.gates.faults.breaking import fault, on_call, on_result, put
from gnomon.gates.gate import AnyEngine, Array
from gnomon.gates.mutations.moved import by_layer
from gnomon.gates.mutations.mutation import Mutation, only
from gnomon.gates.mutations.paths import UNWATCHED
from gnomon.gates.mutations.plans import kernels_edited
from gnomon.reference.numpy_ops import Recurrent
from gnomon.reference.state import State

MANY = "Only chunk, isolation and shadow have steps of so many rows; each holds them against steps of few. "
FILES = "The other gates run weights of f32, and bf16 of tiny-dense; golden loads a file of every stored type. "
ALIKE = "Every engine is wrong alike, so no gate that holds one against another can tell. "


def _norm_at_256(engine: AnyEngine) -> None:
    on_call(engine, "rms_norm", lambda x, w, eps, *rest: (x, w, 1e-3 if len(x) >= 256 else eps, *rest))


@fault
def exports_views(engine: AnyEngine) -> None:
    """Exported arrays are those of the cache, or parts of them."""

    def export_cache(state: State, i: int) -> dict[str, Array]:
        cache = state.caches[i]
        if isinstance(cache, Recurrent):
            return {f"rec.{name}": a for name, a in cache._asdict().items() if a is not None}
        return {f"kv.{name}": array for name, array in cache.rows(0, state.length).items()}

    put(engine.ops, "export_cache", export_cache)


@fault
def loads_in_place(engine: AnyEngine) -> None:
    """The arrays that `load` is given become the cache."""

    def load(arrays: dict[str, Array], ids: Sequence[int]) -> State:
        return engine.load_layers(by_layer(arrays, engine.model.config.layers), ids)

    put(engine, "load", load)


def _gelu_left_out(engine: AnyEngine) -> None:
    on_result(engine, "gelu_tanh", lambda y, x: engine.ops.numpy(x), "mlp.act")


MUTATIONS = (
    Mutation(
        "X31 norm_epsilon_at_256", "norms of 256 rows and more take another epsilon", "both engines",
        fault(_norm_at_256, shared=True), *only("chunk", "isolation", "shadow"), MANY, "blocks.0.ln1, position 0",
        "far", corrected=UNWATCHED,
    ),
    Mutation(
        "X32 kernel_epsilon_at_256", "the kernel of norms takes another epsilon from 256 rows on", "kernel source",
        kernels_edited(
            (
                "host_main.cpp", "rms_norm(buffer(0), weight(0), out(), n[0], in.f[0], task, room)",
                "rms_norm(buffer(0), weight(0), out(), n[0], rows >= 256 ? 1e-3f : in.f[0], task, room)",
            )
        ), *only("chunk", "isolation", "shadow"), MANY, "blocks.0.ln1, position 0", "far", engine="host",
        corrected=UNWATCHED,
    ),
    Mutation(
        "X33 nibble_order", "the two nibbles of a byte are exchanged", "loader", formats.nibbles, *only("golden"),
        FILES + ALIKE, says="Q4_0, first difference",
    ),
    Mutation(
        "X34 minimum_sign", "the minimum of a block has the other sign", "loader", formats.minimum, *only("golden"),
        FILES + ALIKE, says="Q4_1, first difference",
    ),
    Mutation(
        "X35 stored_saturates", "the stored integer -128 is taken for -127", "loader", formats.saturated,
        *only("golden"), FILES + ALIKE, says="Q8_0, first difference",
    ),
    Mutation(
        "X36 int8_ends_at_126", "rows of the int8 arm end at 126", "both engines", formats.ends_at_126,
        *only("golden"), "state-bytes runs int8 too, and holds two engines that are wrong alike against each other.",
        says="int8, first difference",
    ),
    Mutation(
        "X37 kernel_nibble_order", "the kernel takes every second nibble first", "kernel source",
        kernels_edited(("formats.h", "nibble_of_one(l.word, j)", "nibble_of_one(l.word, j ^ 1)")),
        *only("golden"), FILES, says="Q4_0, first difference", engine="host",
    ),
    Mutation(
        "X38 kernel_zero_point", "the kernel counts nibbles from 7", "kernel source",
        kernels_edited(("formats.h", "F_MUL(-24.0f, d)", "F_MUL(-23.0f, d)")),
        *only("golden"), FILES, says="Q4_0, first difference", engine="host",
    ),
    Mutation(
        "X39 gelu_without_cube", "the gelu has no cube", "both engines", formats.plain_gelu,
        *only("golden"),
        "No other gate has a model with a gelu. The op table is broken, not the function behind it.",
        says="gpt2, first difference: blocks.0.mlp.act",
        corrected="shadow was held to fire, since it has known answers of gelu_tanh; it puts them to the function that "
        "a table offers by itself, which this fault leaves as it is.",
    ),
    Mutation(
        "X40 gelu_left_out", "the wiring of GPT-2 leaves out the gelu", "both engines",
        fault(_gelu_left_out, shared=True), *only("golden"), "As X39, and the op by itself is right.",
        says="gpt2, first difference: blocks.0.mlp.act",
    ),
    Mutation(
        "X41 export_shares", "an exported state is the memory of the engine", "state path", exports_views,
        *only("state-bytes"),
        "Keys and values are written once and recurrent states replaced, so what was exported stays as it was; only "
        "state-bytes writes into it.", says="zeros written into an export",
    ),
    Mutation(
        "X42 load_shares", "an engine goes on in the arrays that it was given", "state path", loads_in_place,
        *only("state-bytes"), "Only state-bytes looks at the arrays, or changes them, after they were loaded.",
        says="zeros written into what was loaded",
    ),
    Mutation(
        "X43 node_holds_early", "a node holds a state before its last byte has been checked", "node", nodes.held_early,
        *only("node"), "No other gate runs a node.", says="before its last byte has come",
    ),
    Mutation(
        "X44 node_unchecked", "a node takes states without checking their digests", "node", nodes.unchecked,
        *only("node"), "restore has wrong files refused by the reader, not by a node.", says="taken, status 200",
    ),
)  # fmt: skip
