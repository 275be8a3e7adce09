"""Contract, section 8: the wiring of GPT-2, one float at a time, with every tensor by the name of its tap."""

from oracle.arms import linear
from oracle.attention import attention, usual_scale
from oracle.elementary import gelu_tanh
from oracle.model import Config, Matrix, Run, Weights, added, flat, loaded, parts
from oracle.norms import layer_norm
from oracle.rowwise import embed


def run(config: Config, stored: Weights, ids: list[int]) -> Run:
    """All of `ids` in one step from an empty state."""
    out, pos, heads = Run({}, {}), list(range(len(ids))), config["heads"]
    w = {name: loaded(values) for name, values in stored.items()}

    def norm(at: str, x: Matrix) -> Matrix:
        result = out.tensors[at] = [layer_norm(r, w[f"{at}.weight"], w[f"{at}.bias"], config["eps"]) for r in x]
        return result

    def biased(at: str, x: Matrix) -> Matrix:
        result = out.tensors[at] = linear(x, w[f"{at}.weight"], w[f"{at}.bias"])
        return result

    h = out.tensors["embed"] = added(embed(ids, w["embed.weight"]), embed(pos, w["positions.weight"]))
    for i in range(config["layers"]):
        at, kv = f"blocks.{i}", f"blocks.{i}.kv"
        a = norm(f"{at}.ln1", h)
        q, k, v = ([parts(row, heads) for row in biased(f"{at}.attn.{name}", a)] for name in "qkv")
        out.tensors.update({f"{kv}.k": flat(k), f"{kv}.v": flat(v)})
        out.state.update({f"{kv}.k": k, f"{kv}.v": v})
        steps = attention(q, k, v, pos, usual_scale(config["head_dim"]))
        z = flat(steps.z)
        shown = {"scores": steps.scores, "exp": steps.exp, "denom": steps.denom, "z": z}
        out.tensors.update({f"{at}.attn.{name}": values for name, values in shown.items()})
        h = out.tensors[f"{at}.resid_mid"] = added(h, biased(f"{at}.attn.out", z))
        up = biased(f"{at}.mlp.up", norm(f"{at}.ln2", h))
        act = out.tensors[f"{at}.mlp.act"] = [[gelu_tanh(x) for x in row] for row in up]
        h = out.tensors[f"{at}.resid_post"] = added(h, biased(f"{at}.mlp.out", act))
    out.tensors["logits"] = linear(norm("ln_final", h), w["head.weight"])
    return out
