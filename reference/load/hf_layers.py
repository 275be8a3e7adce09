"""What config.json says of single layers: windows, kinds, the sizes of delta layers, mixtures of experts."""

from gnomon.reference.config import Delta, Moe
from gnomon.reference.errors import ModelError
from gnomon.reference.load.hf_options import DEFAULTS, HYBRIDS, MIXTURES
from gnomon.reference.load.options import Options
from gnomon.reference.strict_json import show

MAX_EXPERTS = 1 << 16  # over all layers; refuses a file that asks for billions before a name is made for each


def windows(options: Options, name: str, layers: int) -> tuple[int | None, ...]:
    """The window of each layer; W positions include the row's own, as in transformers' mask (j > p - W)

    Mistral: `sliding_window` in every layer. Qwen2 and Qwen3: only with `use_sliding_window`, and then in the
    layers that `layer_types` calls "sliding_attention" or, without it, in those from `max_window_layers` on.
    """
    if name not in ("mistral", "qwen2", "qwen3"):
        return no_windows(options, name, layers)
    window = options.integer_or_none("sliding_window", DEFAULTS[name]["sliding_window"])
    if name == "mistral":
        same_everywhere(options, layers, "full_attention" if window is None else "sliding_attention")
        if (used := options.flag("use_sliding_window", window is not None)) is not (window is not None):
            raise options.wrong("use_sliding_window", used, f"use_sliding_window to agree with sliding_window={window}")
        return (window,) * layers
    used = options.flag("use_sliding_window", False)
    first = options.integer("max_window_layers", 28)
    types = layer_types(options, layers, ("full_attention", "sliding_attention"))
    if types is None:
        slides = used and window is not None
        types = ["sliding_attention" if slides and i >= first else "full_attention" for i in range(layers)]
    if "sliding_attention" in types and (window is None or not used):
        raise ModelError("Expected sliding_window and use_sliding_window for layers of sliding_attention but got none")
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def no_windows(options: Options, name: str, layers: int) -> tuple[None, ...]:
    """None for each layer of a family without windows; `use_sliding_window: false` makes the other options idle."""
    if name not in HYBRIDS:  # a hybrid's layer_types tell delta layers from the others
        same_everywhere(options, layers, "full_attention")
    if options.left.get("use_sliding_window") is False:
        options.take("sliding_window")
        options.take("max_window_layers")
    return (None,) * layers


def same_everywhere(options: Options, layers: int, kind: str) -> None:
    """Refuses `layer_types` that say of any layer what the family does not do there."""
    for other in layer_types(options, layers, ("full_attention", "sliding_attention")) or []:
        if other != kind:
            raise ModelError(f"Expected {kind} in every entry of layer_types for this model but got {show(other)}")


def kinds(options: Options, layers: int) -> tuple[str, ...]:
    """ "delta" or "attention" for each layer of a hybrid: as `layer_types` says or, without it, attention in every
    `full_attention_interval`-th layer."""
    interval = options.size("full_attention_interval", 4)
    types = layer_types(options, layers, ("full_attention", "linear_attention"))
    if types is None:
        types = ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers)]
    return tuple("delta" if kind == "linear_attention" else "attention" for kind in types)


def layer_types(options: Options, layers: int, known: tuple[str, str]) -> list[str] | None:
    """One entry for each layer, each among `known`; None where config.json has no such list."""
    types = options.take("layer_types")
    if types is None:
        return None
    if not isinstance(types, list) or len(types) != layers:
        raise options.wrong("layer_types", types, f"a list with one entry for each of {layers} layers")
    for kind in types:
        if kind not in known:
            raise ModelError(f"Expected layer types {known[0]} and {known[1]} but got {show(kind)}")
    return types


def delta(options: Options) -> Delta:
    """The sizes of delta layers."""
    return Delta(
        key_heads=options.size("linear_num_key_heads", 16),
        value_heads=options.size("linear_num_value_heads", 32),
        dk=options.size("linear_key_head_dim", 128),
        dv=options.size("linear_value_head_dim", 128),
        conv=options.size("linear_conv_kernel_dim", 4),
    )


def moe(options: Options, name: str, layers: int) -> Moe | None:
    """The mixture of experts: in every `decoder_sparse_step`-th layer but those in `mlp_only_layers`

    Transformers 5 writes `num_local_experts` where others write `num_experts`.
    """
    if name not in MIXTURES:
        return None
    defaults = DEFAULTS[name]
    keys = [key for key in ("num_experts", "num_local_experts") if options.left.get(key) is not None]
    counts = [options.size(key) for key in keys] or [defaults["num_experts"]]
    experts = counts[0]
    if counts[-1] != experts:
        raise options.wrong("num_local_experts", counts[-1], f"num_local_experts to be num_experts={experts}")
    step, plain = options.size("decoder_sparse_step", 1), set(options.items("mlp_only_layers", int, []))
    sparse = tuple(i for i in range(layers) if (i + 1) % step == 0 and i not in plain)
    if experts * len(sparse) > MAX_EXPERTS:
        raise options.wrong("num_experts", experts, f"at most {MAX_EXPERTS} experts in {len(sparse)} layers")
    shared = "shared_expert_intermediate_size"
    mixture = Moe(
        experts=experts,
        top_k=options.size("num_experts_per_tok", defaults["num_experts_per_tok"]),
        ffn=options.size("moe_intermediate_size", defaults["moe_intermediate_size"]),
        normalise=options.flag("norm_topk_prob", bool(defaults["norm_topk_prob"])),
        layers=sparse,
        shared_ffn=options.size(shared, defaults[shared]) if shared in defaults else 0,
    )
    return mixture if sparse else None
