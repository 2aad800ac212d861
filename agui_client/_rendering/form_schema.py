"""Fields made of a JSON Schema that an agent wrote, in which nothing is fetched (INT-7).

Fields are made when they are looked at, so that a definition that refers to itself, as a tree does, has an end. What no
field can be made of, and what is larger than a person fills in, is filled in as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.json_schema import is_usable, resolved, schema_faults
from agui_client._rendering.form_fields import MISSING, FieldKind, FormField
from agui_client._rendering.form_words import kind_in_words, name_of

DEFAULTS = object()
"""Given in place of a value: the schema's defaults stand in the fields."""
_Make: TypeAlias = Callable[..., FormField]
"""Makes a field of a kind, of which the rest is known."""
_SIMPLE: Mapping[object, FieldKind] = {kind: kind for kind in ("boolean", "integer", "number", "string")}
_IN_LINES: frozenset[FieldKind] = frozenset({"integer", "number", "decimal", "string"})
"""The kinds of entries of which a list is typed as a whole, one in each line."""
_DEFINITIONS = ("$schema", "$defs", "definitions")
_ANNOTATIONS = ("title", "description", "default", "format", "readOnly", "writeOnly")
_MOST_FIELDS = 50
_MOST_VALUES = 1000
_MOST_NAMED = 3
"""Members in the title of a variant that has none."""
_DEEPEST = 30
"""Groups inside of each other that cannot be left out."""
_DECIMAL = "^(?!^[-+.]*$)[+-]?0*"
"""The beginning of pydantic's pattern for a decimal number."""


def root_field(schema: dict[str, Any], given: Any = DEFAULTS) -> FormField:
    """Make the field of a whole answer: a group for an object, if nobody has to fill in too much for it.

    Args:
        given: The value that stands in the fields at first; `DEFAULTS` takes those of the schema.
    """
    if is_usable(schema, _MOST_VALUES):
        root = _field("", schema, schema, True, given)
        if not _is_large(root):
            return root
    return FormField("", "json", schema, is_required=True, value=MISSING if given is DEFAULTS else given)


def _is_large(root: FormField) -> bool:
    return any(count > _MOST_FIELDS or depth > _DEEPEST for count, depth in enumerate(_depths(root), 1))


def _depths(field: FormField, depth: int = 0) -> Iterator[int]:
    """Go through the fields that are drawn at first, those of a group before its end; yields how deep each is."""
    if depth <= _DEEPEST and field.kind in ("group", "tuple") and field.is_there:
        for each in field.fields:
            yield from _depths(each, depth + 1)
    elif depth <= _DEEPEST and field.kind in ("rows", "map"):
        yield depth
        for each in field.entries:
            yield from _depths(each, depth + 1)
    else:
        yield depth


def _field(key: str, schema: dict[str, Any], root: dict[str, Any], is_required: bool, given: Any) -> FormField:
    whole = _whole(schema, root)
    value = _not_null(whole, root)
    # Annotations where a definition is used come before those of the definition; nothing else is checked but the value
    # that is there, so that a problem names its bound, and not the alternatives.
    own = _document(value, root) | value | _only(_ANNOTATIONS, schema)
    if key and not _is_titled(schema):
        own.pop("title", None)  # the title of a definition, of which there may be several uses
    initial = _default(own) if given is DEFAULTS else given
    make: _Make = partial(
        FormField,
        key,
        schema=own,
        is_required=is_required,
        takes_null=_takes_null(whole),
        value=initial,
        reference=_reference(schema, root),
    )
    if "const" in value and value["const"] is not True and (is_required or initial == value["const"]):
        return make(kind="fixed", value=value["const"])
    if value.get("const") is True:
        return make(kind="boolean")
    if properties := _properties(value):
        return make(kind="group", parts=partial(_members, properties, value, root, given, initial))
    if places := _places(value):
        return make(kind="tuple", parts=partial(_entries, places, root, initial))
    if choices := _choices(value):
        return make(kind="choice", choices=[each for _, each in choices], choice_titles=[title for title, _ in choices])
    variants = _alternatives(value, root)
    if _is_decimal(value, variants):
        numbers = [each for each in variants if each.get("type") == "number"]
        bounds = {name: limit for each in numbers for name, limit in each.items() if name != "type"}
        return make(kind="decimal", schema=bounds | own)
    if len(variants) > 1:
        return make(kind="variants", parts=partial(_variants_of, key, value, variants, root, initial))
    return _listed(value, root, initial, make) or _simple(value, schema, root, make)


def _default(schema: dict[str, Any]) -> Any:
    """Return the default of a schema; `MISSING` if there is none that fits."""
    default = schema.get("default")
    return MISSING if default is None or schema_faults(schema, default) else default


def _listed(value: dict[str, Any], root: dict[str, Any], initial: Any, make: _Make) -> FormField | None:
    """Make the field of an array of entries that are alike, or of an object with any names; None for anything else."""
    items, members = _items(value), _any_members(value)

    def entry(given: Any) -> FormField:
        """Make the field of an entry."""
        return _field("", items or members, root, True, DEFAULTS if given is MISSING else given)

    if not items:
        return make(kind="map", entry=entry) if members else None
    inner = _not_null(_whole(items, root), root)
    if _kind(inner) == "array" and not _choices(inner):  # as lists of such lists, which have no end
        return make(kind="rows", entry=entry)
    template = entry(MISSING)
    if template.kind == "choice" and not template.takes_null:
        return make(kind="choices", choices=template.choices, choice_titles=template.choice_titles)
    in_lines = template.kind in _IN_LINES and not template.takes_null and not template.is_long
    return make(kind="list" if in_lines and _is_plain(initial) else "rows", entry=entry)


def _simple(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], make: _Make) -> FormField:
    kind = _SIMPLE.get(_kind(value), "json")
    if kind == "json":
        own = _document(value, root) | _only(_ANNOTATIONS, value) | schema
        return make(kind="json", schema=own, takes_null=False)
    return make(kind=kind)


# --- parts of a value


def _members(
    properties: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], given: Any, initial: Any
) -> list[FormField]:
    """Make the fields of an object; the members of a given one that are missing stay so."""
    needed, others = _array(schema.get("required")), MISSING if given is not DEFAULTS else DEFAULTS
    values = initial if is_object(initial) else {}
    others = others if is_object(initial) else DEFAULTS
    return [
        _field(name, each if is_object(each) else {}, root, name in needed, values.get(name, others))
        for name, each in properties.items()
    ]


def _entries(places: Sequence[dict[str, Any]], root: dict[str, Any], initial: Any) -> list[FormField]:
    """Make the fields of an array whose entries differ."""
    values = initial if is_array(initial) and len(initial) == len(places) else [DEFAULTS] * len(places)
    named = [each if "title" in each else {**each, "title": f"{at}"} for at, each in enumerate(places, 1)]
    pairs = zip(named, values, strict=True)
    return [_field(str(at), schema, root, True, value) for at, (schema, value) in enumerate(pairs)]


def _variants_of(
    key: str, schema: dict[str, Any], variants: Sequence[dict[str, Any]], root: dict[str, Any], initial: Any
) -> list[FormField]:
    """Make a field for each form that a value may have."""
    fields = list[FormField]()
    for each in variants:
        titled = {**each, "title": _title_of(each, root)}
        fits = initial is not MISSING and not schema_faults(_document(each, root) | each, initial)
        fields.append(_field(key, titled, root, True, initial if fits else DEFAULTS))
    return fields


def _title_of(variant: dict[str, Any], root: dict[str, Any]) -> str:
    """Return the title of a variant: its own, a value of its own, its definition, its members, or its kind."""
    whole = _whole(variant, root)
    title = variant.get("title", whole.get("title"))
    if isinstance(title, str):
        return title
    members = [_whole(each, root) for each in _properties(whole).values() if is_object(each)]
    constants = [each["const"] for each in members if isinstance(each.get("const"), str)]
    reference = _reference(variant, root).rpartition("/")[2]
    names = ", ".join([*_properties(whole)][:_MOST_NAMED])
    return constants[0] if constants else reference or names or kind_in_words(_kind(whole))


# --- keywords


def _whole(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with what it refers to, and with the parts that all hold (`allOf`) in one."""
    schema = resolved(schema, root)
    parts = _array(schema.get("allOf"))
    if not parts or not all(map(is_object, parts)):
        return schema
    merged: dict[str, Any] = {}
    for each in [{name: value for name, value in schema.items() if name != "allOf"}, *parts]:
        part = resolved(each, root)
        properties = _object(merged.get("properties")) | _object(part.get("properties"))
        needed = [*_array(merged.get("required")), *_array(part.get("required"))]
        merged = part | merged | ({"properties": properties} if properties else {})
        merged |= {"required": needed} if needed else {}
    return merged


def _reference(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """Return the reference that a schema is, or its one variant besides null; empty if it is none."""
    for each in (schema, *_besides_null(schema)):
        if isinstance(reference := each.get("$ref"), str):
            return reference
    return ""


def _is_titled(schema: dict[str, Any]) -> bool:
    """Return whether a schema has a title where it stands, and not in what it refers to."""
    return any("title" in each for each in (schema, *_besides_null(schema), *_array(schema.get("allOf"))))


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the properties that become fields; empty if the value is filled in as a whole."""
    return _object(schema.get("properties")) if schema.get("type", "object") == "object" else {}


def _any_members(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the members of an object that may have any names; empty if there is none."""
    if schema.get("type") != "object":
        return {}
    patterns = [*_object(schema.get("patternProperties")).values()]
    return _object(schema.get("additionalProperties")) or (_object(patterns[0]) if len(patterns) == 1 else {})


def _items(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the entries of an array that are all alike; empty if there is none."""
    is_list = _kind(schema) == "array" and "prefixItems" not in schema
    return _object(schema.get("items")) if is_list else {}


def _places(schema: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the schemas of the entries of an array that has one for each, and no more; empty if it is another one."""
    places = _array(schema.get("prefixItems"))
    is_closed = schema.get("items") is False or schema.get("maxItems") == len(places)
    is_full = schema.get("minItems") == len(places) or schema.get("items") is False
    return places if places and is_closed and is_full and all(map(is_object, places)) else ()


def _alternatives(schema: dict[str, Any], root: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the schemas of the forms that a value may have."""
    kinds = [kind for kind in _array(schema.get("type")) if kind != "null"]
    if len(kinds) > 1:
        return [{**schema, "type": kind} for kind in kinds]
    return _besides_null(schema)


def _is_decimal(schema: dict[str, Any], variants: Sequence[dict[str, Any]]) -> bool:
    """Return whether a value is a number that may be text, too, so that no digit of it is lost."""
    pattern = schema.get("pattern")
    if schema.get("type") == "string" and isinstance(pattern, str):
        return pattern.startswith(_DECIMAL)
    kinds = [each.get("type") for each in variants]
    return sorted(map(str, kinds)) == ["number", "string"] and not any("enum" in each for each in variants)


def _is_plain(value: Any) -> bool:
    """Return whether each entry of a list can stand in a line of its own."""
    names = map(name_of, value) if is_array(value) else ()
    return all(name and name.strip() == name and "\n" not in name for name in names)


def _document(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return what a part of a schema needs to be one of its own; definitions cost time at each check."""
    return _only(_DEFINITIONS if _refers(schema) else ("$schema",), root)


def _refers(part: Any) -> bool:
    if is_object(part):
        return "$ref" in part or any(map(_refers, part.values()))
    return is_array(part) and any(map(_refers, part))


def _only(names: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _kind(schema: dict[str, Any]) -> object:
    """Return the one type besides null; None if there are several."""
    kinds = [kind for kind in _array(schema.get("type")) or [schema.get("type")] if kind != "null"]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None


def _takes_null(schema: dict[str, Any]) -> bool:
    if variants := _variants(schema):
        return any(
            is_object(each) and (each.get("type") == "null" or each.get("const", 0) is None) for each in variants
        )
    return (
        None in [value for _, value in choices]
        if (choices := _choices(schema))
        else "null" in _array(schema.get("type"))
    )


def _choices(schema: dict[str, Any]) -> Sequence[tuple[str, Any]]:
    """Return values to choose from, with titles: of an enumeration, or of alternatives that are one value each."""
    variants = [each for each in _variants(schema) if is_object(each)]
    values: Sequence[Any] = [schema["const"]] if "const" in schema else _array(schema.get("enum"))
    titles: Sequence[Any] = _array(schema.get("enumNames"))
    if not values and variants and all("const" in each for each in variants):
        values = [each["const"] for each in variants]
        titles = [each.get("title", each["const"]) for each in variants]
    names = [name_of(each) for each in (titles if len(titles) == len(values) else values)]
    # Two choices under one title could not be told apart.
    return [*zip(names if len({*names}) == len(names) else map(name_of, values), values, strict=True)]


def _not_null(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional value that is there: `anyOf: [..., {"type": "null"}]`."""
    others = _besides_null(schema)
    if len(others) != 1:
        return schema
    # What stands beside the alternatives holds for each of them.
    beside = {name: value for name, value in schema.items() if name not in ("anyOf", "oneOf")}
    return beside | _whole(others[0], root)


def _besides_null(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in _variants(schema) if is_object(each) and each.get("type") != "null"]


def _variants(schema: dict[str, Any]) -> Sequence[Any]:
    return _array(schema.get("anyOf", schema.get("oneOf")))


def _array(value: object) -> Sequence[Any]:
    return value if is_array(value) else ()


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}
