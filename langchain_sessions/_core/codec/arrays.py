"""Arrays, frames and tensors in messages, as bytes and lists: by a closed list of tags, without pickle.

Libraries are not asked for: what a value is made of is loaded when it is written, and imported when it is read. What
would not come back the same is not packed here.
"""

from __future__ import annotations

import base64
import importlib
import io
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Form = Callable[[Any], Any]

_BITS = frozenset("biufcmMSU")
"""The kinds of numpy's types whose bytes are their value."""
_TENSOR_TYPES = frozenset(
    [
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
        *("complex64", "complex128"),
    ]
)


def pack_foreign(value: Any, pack: Form, unpack: Form) -> list[Any] | None:
    """`[tag, payload]` of an array, a frame or a tensor; None for anything else, and for what would come back changed.

    Args:
        value: Any value.
        pack: Forms what is in it.
        unpack: Reads that again.
    """
    library = type(value).__module__.partition(".")[0]
    found = _PACKERS.get(library)
    if found is None or library not in sys.modules:
        return None
    try:
        return found(sys.modules[library], value, pack, unpack)
    except Exception:  # whatever a library raises about a value of its own: it is stored another way
        return None


def unpack_foreign(tag: str, payload: Any, unpack: Form) -> Any:
    """Read what `pack_foreign` made.

    Raises:
        ImportError: The library is not there.
        ValueError: It is not what was written.
    """
    library, _, form = tag.partition(".")
    module = importlib.import_module(library)
    try:
        return _UNPACKERS[library](module, form, payload, unpack)
    except Exception as error:  # whatever a library raises over bytes that are not what was written
        raise ValueError(tag) from error


def is_foreign(tag: str) -> bool:
    """Whether a tag is one of this module's."""
    return tag.partition(".")[0] in _UNPACKERS and "." in tag


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- numpy ---------------------------------------------------------------------------------------------------------


def _pack_numpy(np: Any, value: Any, pack: Form, unpack: Form) -> list[Any] | None:
    del unpack
    if type(value) is np.ndarray:
        order = _order(value)
        if value.dtype.kind in _BITS:
            return ["numpy.array", [value.dtype.str, list(value.shape), order, _encoded(value.tobytes(order=order))]]
        if value.dtype.names and not value.dtype.hasobject:
            fields = pack(np.lib.format.dtype_to_descr(value.dtype))
            return ["numpy.records", [fields, list(value.shape), order, _encoded(value.tobytes(order=order))]]
        if value.dtype.kind == "O":
            items = value.ravel().tolist()
            return ["numpy.objects", [list(value.shape), [pack(item) for item in items]]]
        return None
    if isinstance(value, np.generic) and value.dtype.kind in _BITS:
        return ["numpy.scalar", [value.dtype.str, _encoded(value.tobytes())]]
    return None


def is_same_array(one: Any, other: Any) -> bool | None:
    """Whether two of numpy's arrays have the same type, shape, order and bytes; None where it takes more to tell."""
    np = sys.modules.get("numpy")
    if np is None or type(one) is not np.ndarray or type(other) is not np.ndarray or one.dtype.kind not in _BITS:
        return None
    alike = (one.dtype.str, one.shape, _order(one)) == (other.dtype.str, other.shape, _order(other))
    return alike and bool(one.tobytes(order=_order(one)) == other.tobytes(order=_order(other)))


def _order(array: Any) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _unpack_numpy(np: Any, form: str, payload: Any, unpack: Form) -> Any:
    if form == "objects":
        shape, items = payload
        array = np.empty(len(items), dtype=object)
        for at, item in enumerate(items):
            array[at] = unpack(item)
        return array.reshape(shape)
    dtype = _plain_type(np, payload[0]) if form != "records" else np.lib.format.descr_to_dtype(unpack(payload[0]))
    # From a bytearray, so that it may be written to; a type that holds objects is refused here.
    data = np.frombuffer(bytearray(base64.b64decode(payload[-1])), dtype=dtype)
    return data[0] if form == "scalar" else data.reshape(payload[1], order=payload[2])


def _plain_type(np: Any, name: str) -> Any:
    found = np.dtype(name)
    if found.kind not in _BITS:
        raise ValueError(name)
    return found


# -- pandas --------------------------------------------------------------------------------------------------------


def _pack_pandas(pd: Any, value: Any, pack: Form, unpack: Form) -> list[Any] | None:
    kind = type(value)
    check: Callable[[Any, Any], Any]
    tagged: list[Any]
    if kind is pd.Timestamp:
        zone = None if value.tz is None else str(value.tz)
        plain = value if zone is None else value.tz_convert("UTC")
        return ["pandas.time", [plain.isoformat(), zone]]
    if kind is pd.DataFrame:
        columns = [_pack_column(pd, value.iloc[:, at], pack) for at in range(value.shape[1])]
        index = _pack_index(pd, value.index, pack), _pack_index(pd, value.columns, pack)
        tagged = ["pandas.frame", [*index, columns]]
        check = partial(pd.testing.assert_frame_equal, check_freq=False)
    elif kind is pd.Series:
        tagged = [
            "pandas.series",
            [_pack_index(pd, value.index, pack), pack(value.name), _pack_column(pd, value, pack)],
        ]
        check = partial(pd.testing.assert_series_equal, check_freq=False)
    elif isinstance(value, pd.Index):
        tagged = ["pandas.index", _pack_index(pd, value, pack)]
        check = pd.testing.assert_index_equal
    else:
        return None
    back = unpack_foreign(tagged[0], tagged[1], unpack)
    if type(back) is not kind:
        return None
    check(back, value)  # raises where they differ
    return tagged


def _pack_column(pd: Any, column: Any, pack: Form) -> list[Any]:
    """The values of a column: bytes where they are numbers, else one by one with None for what is missing."""
    dtype = column.dtype
    if getattr(dtype, "kind", "") in _BITS and type(dtype).__module__.partition(".")[0] == "numpy":
        return ["bits", pack(column.to_numpy())]
    if isinstance(dtype, pd.CategoricalDtype):
        categories = pd.Series(column.cat.categories)
        codes = column.cat.codes.to_numpy()
        return ["category", [pack(codes), _pack_column(pd, categories, pack), bool(dtype.ordered)]]
    if isinstance(dtype, pd.DatetimeTZDtype):
        plain = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return ["zoned", [pack(plain), str(dtype)]]
    if getattr(dtype, "kind", "") == "O" and type(dtype).__module__.partition(".")[0] == "numpy":
        return ["objects", [pack(item) for item in column.tolist()]]
    values = [None if missing else item for item, missing in zip(column.tolist(), column.isna(), strict=True)]
    return ["values", [[pack(item) for item in values], str(dtype)]]


def _unpack_column(pd: Any, packed: Any, unpack: Form) -> Any:
    form, payload = packed
    if form == "bits":
        return pd.Series(unpack(payload))
    if form == "category":
        codes, categories, is_ordered = payload
        found = _unpack_column(pd, categories, unpack)
        return pd.Series(pd.Categorical.from_codes(unpack(codes), categories=pd.Index(found), ordered=is_ordered))
    if form == "zoned":
        return pd.Series(unpack(payload[0])).dt.tz_localize("UTC").astype(payload[1])
    if form == "objects":
        return pd.Series([unpack(item) for item in payload], dtype=object)
    return pd.Series([unpack(item) for item in payload[0]], dtype=payload[1])


def _pack_index(pd: Any, index: Any, pack: Form) -> list[Any]:
    if isinstance(index, pd.RangeIndex):
        return ["range", [index.start, index.stop, index.step, pack(index.name)]]
    if isinstance(index, pd.MultiIndex):
        levels = [_pack_index(pd, index.get_level_values(at), pack) for at in range(index.nlevels)]
        return ["levels", levels]
    return ["plain", [_pack_column(pd, index.to_series(), pack), pack(index.name)]]


def _unpack_index(pd: Any, packed: Any, unpack: Form) -> Any:
    form, payload = packed
    if form == "range":
        start, stop, step, name = payload
        return pd.RangeIndex(start, stop, step, name=unpack(name))
    if form == "levels":
        return pd.MultiIndex.from_arrays([_unpack_index(pd, level, unpack) for level in payload])
    return pd.Index(_unpack_column(pd, payload[0], unpack), name=unpack(payload[1]))


def _unpack_pandas(pd: Any, form: str, payload: Any, unpack: Form) -> Any:
    if form == "time":
        time = pd.Timestamp(payload[0])
        return time if payload[1] is None else time.tz_convert(payload[1])
    if form == "index":
        return _unpack_index(pd, payload, unpack)
    if form == "series":
        index, name, packed = payload
        series = _unpack_column(pd, packed, unpack)
        series.index, series.name = _unpack_index(pd, index, unpack), unpack(name)
        return series
    index, columns, packed = payload
    rows = _unpack_index(pd, index, unpack)
    read = [_unpack_column(pd, each, unpack) for each in packed]
    if any(len(each) != len(rows) for each in read):
        raise ValueError(form)
    frame = pd.DataFrame(dict(enumerate(read)), index=range(len(rows)))
    frame.index, frame.columns = rows, _unpack_index(pd, columns, unpack)
    return frame


# -- polars and torch ----------------------------------------------------------------------------------------------


def _pack_polars(pl: Any, value: Any, pack: Form, unpack: Form) -> list[Any] | None:
    del pack
    if type(value) not in (pl.DataFrame, pl.Series):
        return None
    frame = value if type(value) is pl.DataFrame else value.to_frame()
    into = io.BytesIO()
    frame.write_ipc(into)
    tagged = ["polars.frame" if frame is value else "polars.series", _encoded(into.getvalue())]
    back = _unpack_polars(pl, tagged[0].partition(".")[2], tagged[1], unpack)
    same_types = back.schema == value.schema if frame is value else back.dtype == value.dtype
    return tagged if same_types and back.equals(value) else None


def _unpack_polars(pl: Any, form: str, payload: Any, unpack: Form) -> Any:
    del unpack
    frame = pl.read_ipc(io.BytesIO(base64.b64decode(payload)))
    return frame.to_series() if form == "series" else frame


def _pack_torch(torch: Any, value: Any, pack: Form, unpack: Form) -> list[Any] | None:
    del pack, unpack
    name = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if type(value) is not torch.Tensor or name not in _TENSOR_TYPES or value.layout is not torch.strided:
        return None
    plain = value.detach().cpu().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return ["torch.tensor", [name, list(value.shape), _encoded(data)]]


def _unpack_torch(torch: Any, form: str, payload: Any, unpack: Form) -> Any:
    del form, unpack
    name, shape, data = payload
    if name not in _TENSOR_TYPES:
        raise ValueError(name)
    dtype = getattr(torch, name)
    raw = bytearray(base64.b64decode(data))
    return torch.frombuffer(raw, dtype=dtype).reshape(shape) if raw else torch.empty(shape, dtype=dtype)


_PACKERS: dict[str, Callable[[Any, Any, Form, Form], list[Any] | None]] = {
    "numpy": _pack_numpy,
    "pandas": _pack_pandas,
    "polars": _pack_polars,
    "torch": _pack_torch,
}
_UNPACKERS: dict[str, Callable[[Any, str, Any, Form], Any]] = {
    "numpy": _unpack_numpy,
    "pandas": _unpack_pandas,
    "polars": _unpack_polars,
    "torch": _unpack_torch,
}
