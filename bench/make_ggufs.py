"""The same model in several formats: a GGUF file, widened to f32 and written again as Q8_0, Q4_0, BF16 and F32.

    python bench/make_ggufs.py MODEL.gguf FOLDER

Metadata go over as they are, but for the file type; vectors (norms) stay f32. Every matrix takes the format, but a
Q8_0 one (the embedding, which is the head too) stays Q8_0 in a file of 4 bits, as llama.cpp's own converter has it.
What was rounded for the first file is rounded again, so the files are for speed, not for quality; both sides load the
same one. An existing file is left alone. Ends with one line of JSON.
"""

import json
from pathlib import Path
from typing import Annotated

import gguf
import numpy as np
import typer
from gguf import GGMLQuantizationType, GGUFValueType, LlamaFileType

from gnomon.reference.errors import GnomonError, ModelError

FORMATS = {
    "Q8_0": LlamaFileType.MOSTLY_Q8_0,
    "Q4_0": LlamaFileType.MOSTLY_Q4_0,
    "BF16": LlamaFileType.MOSTLY_BF16,
    "F32": LlamaFileType.ALL_F32,
}
WRITTEN_BY_ITSELF = {"general.architecture", "general.file_type", "general.quantization_version"}


def make(source: Path, form: str, out: Path) -> None:
    """The model of a GGUF file in another format, written aside and renamed. form: one of FORMATS"""
    reader = gguf.GGUFReader(source)
    architecture = str(reader.fields["general.architecture"].contents())
    aside = out.with_name(f"{out.name}.part")
    writer = gguf.GGUFWriter(aside, architecture)
    writer.add_file_type(FORMATS[form])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in WRITTEN_BY_ITSELF:
            continue
        kind, *inner = field.types
        writer.add_key_value(name, field.contents(), kind, inner[-1] if kind == GGUFValueType.ARRAY else None)
    kind = GGMLQuantizationType[form]
    for tensor in reader.tensors:
        values = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        values = values.reshape(tuple(int(n) for n in tensor.shape[::-1]))
        if values.ndim == 1 or form == "F32":
            writer.add_tensor(tensor.name, values)
        elif form == "Q4_0" and tensor.tensor_type == GGMLQuantizationType.Q8_0:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    aside.replace(out)


def all_formats(source: Path, folder: Path) -> dict[str, Path]:
    """Path of every format by its name, that of `source` first; files not there yet are made. Raises ModelError."""
    if not source.is_file():
        raise ModelError(f"Expected a GGUF file but there is no {str(source)!r}; `make test-real` fetches one")
    folder.mkdir(parents=True, exist_ok=True)
    own = source.stem.rpartition(".")[2]
    found = {own: source}
    for form in FORMATS:
        out = folder / f"{source.stem.rpartition('.')[0] or source.stem}.{form}.gguf"
        if form == own:
            continue
        if not out.exists():
            make(source, form, out)
        found[form] = out
    return found


def main(model: Path, folder: Annotated[Path, typer.Argument(help="made where it is not there")]) -> None:
    """Write the files that are missing."""
    try:
        found = all_formats(model, folder)
    except (GnomonError, OSError) as error:
        raise SystemExit(str(error)) from error
    print(json.dumps({form: {"file": path.name, "bytes": path.stat().st_size} for form, path in found.items()}))


if __name__ == "__main__":
    typer.run(main)
