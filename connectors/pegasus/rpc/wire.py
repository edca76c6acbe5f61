"""Thrift's binary protocol, strict, and the structs that travel in it.

A struct of ours is a class with a ``thrift_spec``, declared with :func:`struct`, which Apache
Thrift's own library reads and writes. Some base types of Pegasus are declared as structs on the
wire and carry raw payload instead of fields; they are classes of their own, see :class:`RawType`.

What differs from the library's protocol: element types of containers are compared with what is
declared, lengths never exceed the bytes that are there, and an unknown field that is a struct is an
error, since nothing distinguishes a raw payload from fields: skipping it would lose the place. What
every field needs is read here, in a third of the library's time.
"""

from __future__ import annotations

import ipaddress
import math
import struct as packing
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, ClassVar, Final, Protocol, Self

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

_I8, _I16, _I32, _I64 = map(packing.Struct, ("!b", "!h", "!i", "!q"))

Field = tuple[int, int, str, Any, Any]
Spec = tuple[Field | None, ...]


class WireError(Exception):
    """Bytes that are not what they should be; the message says what was expected."""


@dataclass
class Budget:
    """Memory budget of decoded bytes: an empty struct is one byte, but hundreds in memory.

    Attributes:
        left_bytes: What may still be taken.
        ends_at: When reading has to be over, on the monotonic clock, s.
    """

    left_bytes: float = math.inf
    ends_at: float = math.inf

    def take(self, count: int) -> None:
        """Take so many bytes.

        Raises:
            WireError: There are not so many left.
            TimeoutError: The time is up.
        """
        self.left_bytes -= count
        if self.left_bytes < 0:
            raise WireError("more than fits into the memory that an answer may take")
        if monotonic() > self.ends_at:
            raise TimeoutError


class StrictProtocol(TBinaryProtocol):  # type: ignore[misc]  # the library has no types
    """The binary protocol without the library's leniency; see the module's first words."""

    budget = Budget()

    def readStruct(self, obj: Any, thrift_spec: Spec) -> None:  # noqa: N802 - the library's name
        """Fill an object from its fields."""
        self.budget.take(_STRUCT_BYTES + _FIELD_BYTES * len(thrift_spec))
        self.increment_recursion_depth()
        try:
            while (kind := self.readByte()) != TType.STOP:
                number = self.readI16()
                field = thrift_spec[number] if 0 <= number < len(thrift_spec) else None
                if field is None or field[1] != kind:
                    self.skip(kind)
                else:
                    setattr(obj, field[2], self.readFieldByTType(kind, field[3]))
        finally:
            self.decrement_recursion_depth()

    def readFieldByTType(self, ttype: int, spec: Any) -> Any:  # noqa: N802 - the library's name
        """Read one value of a type."""
        if ttype == TType.STRUCT:
            value = spec[0]()
            value.read(self)
            return value
        if ttype == TType.I32:
            return self.readI32()
        if ttype == TType.I64:
            return self.readI64()
        if ttype == TType.STRING:  # every text of ours is UTF-8
            return self.readString()
        if ttype == TType.LIST:
            return self.readContainerList(spec)
        return super().readFieldByTType(ttype, spec)

    def readContainerList(self, spec: Any) -> list[Any]:  # noqa: N802 - the library's name
        """Read a list whose elements have the declared type."""
        kind, count = self.readListBegin()
        return self._elements(kind, count, spec)

    def readContainerSet(self, spec: Any) -> list[Any]:  # noqa: N802 - the library's name
        """Read a set; its order on the wire is preserved."""
        kind, count = self.readSetBegin()
        return self._elements(kind, count, spec)

    def readContainerMap(self, spec: Any) -> dict[Any, Any]:  # noqa: N802 - the library's name
        """Read a map; its order on the wire is preserved."""
        key_kind, key_spec, value_kind, value_spec, _ = spec
        found_key, found_value, count = self.readMapBegin()
        if count and (found_key, found_value) != (key_kind, value_kind):
            raise WireError(f"a map of types {found_key} and {found_value}")
        entries: dict[Any, Any] = {}
        for _ in range(count):
            self.budget.take(2 * _ELEMENT_BYTES)
            key = self.readFieldByTType(key_kind, key_spec)
            entries[key] = self.readFieldByTType(value_kind, value_spec)
        return entries

    def skip(self, ttype: int, max_depth: int = 64) -> None:
        """Pass over an unknown field; a struct cannot be passed over."""
        if ttype == TType.STRUCT:
            raise WireError("a field of struct type that is not known: the server is newer")
        self.budget.take(1)
        super().skip(ttype, max_depth)

    def _elements(self, kind: int, count: int, spec: Any) -> list[Any]:
        wanted, element, _ = spec
        if count and kind != wanted:
            raise WireError(f"elements of type {kind}, not {wanted}")
        found = []
        for _ in range(count):
            self.budget.take(_ELEMENT_BYTES)
            found.append(self.readFieldByTType(wanted, element))
        return found


class Struct:
    """A struct: one attribute a field, ``None`` where it is absent."""

    thrift_spec: ClassVar[Spec] = ()
    absent: ClassVar[dict[str, None]] = {}

    def __init__(self, **fields: Any) -> None:
        if not self.absent.keys() >= fields.keys():
            unknown = sorted(fields.keys() - self.absent.keys())
            raise TypeError(f"{type(self).__name__} has no {unknown}")
        self.__dict__.update(self.absent)
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # fields change while one is built

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"

    def read(self, protocol: Any) -> None:
        """Fill the fields from bytes; what Thrift calls."""
        protocol.readStruct(self, self.thrift_spec)

    def write(self, protocol: Any) -> None:
        """Write the fields that are set; what Thrift calls."""
        protocol.writeStruct(self, self.thrift_spec)


def struct(name: str, *fields: Field) -> type[Struct]:
    """Declare a struct."""
    spec: list[Field | None] = [None] * (max((field[0] for field in fields), default=-1) + 1)
    for field in fields:
        spec[field[0]] = field
    absent = dict.fromkeys(field[2] for field in fields)
    return type(name, (Struct,), {"thrift_spec": tuple(spec), "absent": absent})


class RawType(Protocol):
    """A base type whose payload has no fields."""

    def read(self, protocol: Any) -> None:
        """Take the payload."""

    def write(self, protocol: Any) -> None:
        """Give the payload."""


@dataclass
class Gpid:
    """A partition; -1 as table or index means all."""

    app_id: int = 0
    index: int = 0

    def read(self, protocol: Any) -> None:
        """Take 64 bits: the index above, the table below, both signed."""
        both = protocol.readI64()
        self.app_id, self.index = _signed(both & _LOW), both >> 32

    def write(self, protocol: Any) -> None:
        """Give the same."""
        protocol.writeI64(_signed_64((self.index << 32) | (self.app_id & _LOW)))

    def __hash__(self) -> int:
        return hash((self.app_id, self.index))


@dataclass
class RpcAddress:
    """The older form of an address: IPv4 and port; 0 is no node."""

    value: int = 0

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the address written ``1.2.3.4:34801``."""
        host, _, port = text.rpartition(":")
        return cls((int(ipaddress.IPv4Address(host)) << 32) | (int(port) << 16) | _IPV4)

    def read(self, protocol: Any) -> None:
        """Take 64 bits."""
        self.value = protocol.readI64() & _ALL

    def write(self, protocol: Any) -> None:
        """Give 64 bits."""
        protocol.writeI64(_signed_64(self.value))

    @property
    def text(self) -> str | None:
        """``1.2.3.4:34801``, ``None`` if no node."""
        if self.value & 3 != _IPV4:
            return None
        return f"{ipaddress.IPv4Address(self.value >> 32)}:{(self.value >> 16) & 0xFFFF}"


@dataclass
class HostPort:
    """The newer form of an address: host name and port; empty is no node."""

    host: str = ""
    port: int = 0
    kind: int = 0

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the address written ``db1:34801``."""
        host, _, port = text.rpartition(":")
        return cls(host, int(port), _IPV4)

    def read(self, protocol: Any) -> None:
        """Take name, port and kind."""
        self.host = protocol.readString()
        self.port = protocol.readI16() & 0xFFFF
        self.kind = protocol.readByte()

    def write(self, protocol: Any) -> None:
        """Give the same."""
        protocol.writeString(self.host)
        protocol.writeI16(self.port - 0x10000 if self.port > 0x7FFF else self.port)
        protocol.writeByte(self.kind)

    @property
    def text(self) -> str | None:
        """``db1:34801``, ``None`` if no node."""
        return f"{self.host}:{self.port}" if self.host else None


@dataclass
class ErrorCode:
    """An error by its name."""

    name: str = "ERR_OK"

    def read(self, protocol: Any) -> None:
        """Take the name."""
        self.name = protocol.readString()

    def write(self, protocol: Any) -> None:
        """Give the name."""
        protocol.writeString(self.name)


_STRUCT_BYTES: Final = 150
_FIELD_BYTES: Final = 50
_ELEMENT_BYTES: Final = 64
"""What Python takes for an object, for a field of it, and for what is in a list."""
_LOW: Final = 0xFFFFFFFF
_ALL: Final = 0xFFFFFFFFFFFFFFFF
_IPV4: Final = 1


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits & 0x80000000 else bits


def _signed_64(value: int) -> int:
    bits = value & _ALL
    return bits - (1 << 64) if bits >> 63 else bits


def i32(number: int, name: str) -> Field:
    """Declare a 32-bit field."""
    return number, TType.I32, name, None, None


def i64(number: int, name: str) -> Field:
    """Declare a 64-bit field."""
    return number, TType.I64, name, None, None


def boolean(number: int, name: str) -> Field:
    """Declare a truth value."""
    return number, TType.BOOL, name, None, None


def text(number: int, name: str) -> Field:
    """Declare a text, UTF-8."""
    return number, TType.STRING, name, "UTF8", None


def one(number: int, name: str, kind: type[Struct | RawType]) -> Field:
    """Declare a struct or a raw base type."""
    return number, TType.STRUCT, name, [kind, None], None


def many(number: int, name: str, kind: type[Struct | RawType]) -> Field:
    """Declare a list of structs or raw base types."""
    return number, TType.LIST, name, (TType.STRUCT, [kind, None], False), None


def texts(number: int, name: str) -> Field:
    """Declare a list of texts."""
    return number, TType.LIST, name, (TType.STRING, "UTF8", False), None


def numbers(number: int, name: str) -> Field:
    """Declare a list of 32-bit numbers."""
    return number, TType.LIST, name, (TType.I32, None, False), None


def number_set(number: int, name: str) -> Field:
    """Declare a set of 32-bit numbers."""
    return number, TType.SET, name, (TType.I32, None, False), None


def structs_by_number(number: int, name: str, kind: type[Struct]) -> Field:
    """Declare a map of 32-bit numbers to structs."""
    return number, TType.MAP, name, (TType.I32, None, TType.STRUCT, [kind, None], False), None


def structs_by_text(number: int, name: str, kind: type[Struct]) -> Field:
    """Declare a map of texts to structs."""
    return number, TType.MAP, name, (TType.STRING, "UTF8", TType.STRUCT, [kind, None], False), None


def number_map(number: int, name: str) -> Field:
    """Declare a map of 32-bit numbers to 64-bit ones."""
    return number, TType.MAP, name, (TType.I32, None, TType.I64, None, False), None


def lists(number: int, name: str, kind: type[Struct]) -> Field:
    """Declare a list of lists of structs."""
    inner = (TType.STRUCT, [kind, None], False)
    return number, TType.LIST, name, (TType.LIST, inner, False), None


def text_map(number: int, name: str) -> Field:
    """Declare a map of texts."""
    return number, TType.MAP, name, (TType.STRING, "UTF8", TType.STRING, "UTF8", False), None


def sets_by_number(number: int, name: str, kind: type[RawType]) -> Field:
    """Declare a map of 32-bit numbers to sets of a raw base type."""
    inner = (TType.STRUCT, [kind, None], False)
    return number, TType.MAP, name, (TType.I32, None, TType.SET, inner, False), None


class _Source:
    """Bytes to read, as the library's protocol requests them."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def readAll(self, count: int) -> bytes:  # noqa: N802 - the library's name
        """Take so many bytes."""
        end = self._at + count
        if end > len(self._content):
            raise EOFError("the bytes end early")
        taken = self._content[self._at : end]
        self._at = end
        return taken

    def take(self, form: packing.Struct) -> int:
        """Take a number."""
        at = self._at
        self._at = at + form.size
        number: int = form.unpack_from(self._content, at)[0]
        return number

    def left(self) -> int:
        """Return the number of remaining bytes."""
        return len(self._content) - self._at


def reader(content: bytes, budget: Budget | None = None) -> tuple[Any, Callable[[], int]]:
    """Return a protocol over bytes, and a function that returns how many are left.

    Args:
        budget: What they may become; ``None`` for anything.
    """
    source = _Source(content)
    limits = {"string_length_limit": len(content), "container_length_limit": len(content)}
    protocol = StrictProtocol(source, strictRead=True, **limits)
    protocol.readByte, protocol.readI16 = partial(source.take, _I8), partial(source.take, _I16)
    protocol.readI32, protocol.readI64 = partial(source.take, _I32), partial(source.take, _I64)
    protocol.budget = budget or Budget()
    return protocol, source.left


def written(write: Callable[[Any], None]) -> bytes:
    """Return the bytes that ``write`` gives to a protocol."""
    buffer = TMemoryBuffer()
    write(StrictProtocol(buffer))
    content: bytes = buffer.getvalue()
    return content


def guarded(read: Callable[[], Any]) -> Any:
    """Run a reading function; whatever is wrong with the bytes becomes a :class:`WireError`.

    Raises:
        WireError: The bytes end early, lengths or types do not fit, a text is not UTF-8.
    """
    try:
        return read()
    except packing.error as exc:
        raise WireError("the bytes end early") from exc
    except (TException, TProtocolException, UnicodeDecodeError, EOFError, RecursionError) as exc:
        raise WireError(str(exc) or type(exc).__name__) from exc
    except (ValueError, TypeError, IndexError, OverflowError) as exc:
        raise WireError(f"bytes out of form: {exc}") from exc
