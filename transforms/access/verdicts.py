"""Which layer of a decision permits or denies a user, and by which tokens."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import unquote

import msgspec

from feedferry.schemas.acl import DEFAULT_NAMESPACE, Access
from feedferry.transforms.access.decision import LAYERS
from feedferry.transforms.access.index_fields import EVERYONE, field_names


class TokenLayer(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a layer of a part; numbers begin with 1."""

    part: int
    layer: int
    denies: Sequence[str] = []
    permits: Sequence[str] = []


class PartVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a part decides about a user: by the first layer that has a token of the user.

    Without such a layer, the part denies the user, and `layer` and `access` are None.
    """

    part: int
    layer: int | None = None
    access: Access | None = None
    tokens: Sequence[str] = []


def layers_of_fields(fields: Mapping[str, Collection[str]]) -> list[TokenLayer]:
    """Return the layers that have tokens, and the first one, of parts that not all users pass.

    A part without permits permits no user: it is returned alone, without its denials.
    """
    layers = []
    for part, of_part in enumerate(_parts(fields), 1):
        if not any(permits for _, permits in of_part):
            return [TokenLayer(part=part, layer=1)]
        denies, permits = of_part[0]
        if EVERYONE in permits and not denies:
            continue
        layers += [
            TokenLayer(part=part, layer=number, denies=denied, permits=permitted)
            for number, (denied, permitted) in enumerate(of_part, 1)
            if denied or permitted or number == 1
        ]
    return layers


def verdicts(
    fields: Mapping[str, Collection[str]], tokens: Collection[str]
) -> Iterator[PartVerdict]:
    """Yield how each part decides about a search with these tokens.

    The search finds the document if all parts permit.
    """
    for part, layers in enumerate(_parts(fields), 1):
        yield next(_decisive(part, layers, {*tokens}), PartVerdict(part=part))


def token_text(token: str) -> str:
    """Return a token in words.

    >>> token_text("gs:Default:staff"), token_text("ui:corp:bob"), token_text("*")
    ('group staff', 'user bob of namespace corp, in any case', 'everyone')
    """
    if token == EVERYONE:
        return "everyone"
    kind, _, names = token.partition(":")
    namespace, _, name = map(unquote, names.partition(":"))
    text = f"{'user' if kind.startswith('u') else 'group'} {name}"
    if namespace != DEFAULT_NAMESPACE:
        text += f" of namespace {namespace}"
    return f"{text}, in any case" if kind.endswith("i") else text


def _decisive(
    part: int, layers: Sequence[tuple[list[str], list[str]]], tokens: set[str]
) -> Iterator[PartVerdict]:
    for number, layer in enumerate(layers, 1):
        for access, stated in zip((Access.DENY, Access.PERMIT), layer, strict=True):
            if named := [token for token in stated if token in tokens]:
                yield PartVerdict(part=part, layer=number, access=access, tokens=named)


def _parts(
    fields: Mapping[str, Collection[str]],
) -> Iterator[list[tuple[list[str], list[str]]]]:
    """Yield the denials and permits of the layers of each part."""
    tokens = [[*fields.get(name, ())] for name in field_names()]
    layers = [*zip(tokens[::2], tokens[1::2], strict=True)]
    for begin in range(0, len(layers), LAYERS):
        yield layers[begin : begin + LAYERS]
