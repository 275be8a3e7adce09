"""What the text of a kernel may not hold, whatever compiles it."""

import re

FORBIDDEN = {
    "an atomic": re.compile(r"\batomic\w*"),
    "an operation over lanes": re.compile(r"\bsimd_\w+|\b__shfl\w*|\b__reduce\w*"),
    "a fused multiply-add": re.compile(r"\b(?:fmaf?|mad)\s*\(|\b__fmaf?_\w+"),
    "an approximate function": re.compile(
        r"\b(?:rsqrt|exp|exp2|log|log2|sin|cos|tanh|pow)f?\s*\(|\bfast::|\b__(?:exp|log|sin|cos|pow|fdividef)f?\b"
    ),
    "a character outside ASCII": re.compile(r"[^\x00-\x7f]"),
    "a constant without a place": re.compile(r"\bstatic (?:const|constexpr)\b"),  # FIXED says where Metal keeps it
    "memory without a name": re.compile(  # a pointer or reference: Metal has no default
        r"(?<!DEVICE )(?<!SHARED )(?<!THREAD )\b(?:float|u8|i8|u16|u32|i32|int|Linear|Delta|Attention|Tile)\s*[*&]\s*\w"
    ),
}


def forbidden(text: str) -> list[str]:
    """What of the list stands in the text; comments count only for ASCII"""
    code = re.sub(r"//[^\n]*", "", text)
    return [what for what, pattern in FORBIDDEN.items() if pattern.search(text if "ASCII" in what else code)]
