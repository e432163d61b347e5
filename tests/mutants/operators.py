"""What is changed: each mutant is one small change to a module's syntax tree that a test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

FLIPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""Each comparison at its boundary and upside down."""
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
TRANSPARENT = ("sorted", "reversed")
"""Calls of which the argument itself is tried instead."""
TEXT_METHODS = frozenset(
    {
        "startswith",
        "endswith",
        "partition",
        "rpartition",
        "split",
        "rsplit",
        "removeprefix",
        "removesuffix",
        "get",
        "join",
    }
)
"""Methods whose text decides; every other text is wording and stays as it is."""


@dataclass(eq=False, kw_only=True)
class Mutant:
    """One change. ``function`` is the outermost function or method it is in, empty in the module's own body."""

    line: int
    function: str
    before: str
    after: str
    within: str
    """The statement that it is in; of one with a body its head."""
    reason: str
    """Why it does not count, empty: it counts."""
    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST | None
    """What stands there instead; None: nothing."""

    def __str__(self) -> str:
        return f"{self.line} {self.function or 'module'}: {self.before}  ->  {self.after}"


class MutatedModule:
    """A module's syntax tree and all that is tried in it. ``root`` is the directory that imports start at."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(), str(path))
        self._members = _enum_members(self.tree, root)
        # What checkpoints say of a transaction is called evidence too: that one decides.
        self._shown = "Evidence" if _imports(self.tree, "indoubt.lifecycle.verdicts", "Evidence") else ""

    def mutants(self) -> list[Mutant]:
        """Return them all in the order of the source, also those that do not count."""
        return list(self._in(self.tree, "", "", ""))

    def compiled(self, mutant: Mutant) -> CodeType:
        """Return the module's code with this change; the tree is afterwards as before."""
        value = getattr(mutant.parent, mutant.field)
        changed = mutant.node
        if mutant.index is not None:
            changed = [*value[: mutant.index], *([mutant.node] if mutant.node else []), *value[mutant.index + 1 :]]
        setattr(mutant.parent, mutant.field, changed)
        try:
            return compile(ast.fix_missing_locations(self.tree), str(self.path), "exec")
        finally:
            setattr(mutant.parent, mutant.field, value)

    def _in(self, node: ast.AST, function: str, within: str, reason: str) -> Iterator[Mutant]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params", "ctx"):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if not isinstance(child, ast.AST):
                    continue
                why = reason or _not_counted(child, self._shown) or _of_place(node, field, index)
                statement = _text(child) if isinstance(child, ast.stmt) else within
                inside = function
                # A default is part of the module's body: it is computed when the module is loaded.
                if isinstance(child, ast.ClassDef):
                    inside = f"{function}{child.name}."
                if isinstance(child, ast.FunctionDef) and (not function or function.endswith(".")):
                    inside = function + child.name
                if isinstance(node, ast.FunctionDef) and field == "args":
                    inside = ""
                for new in self._changes(node, field, child):
                    yield Mutant(
                        line=getattr(child, "lineno", getattr(node, "lineno", 0)),
                        function="" if inside.endswith(".") else inside,
                        before=_text(child),
                        after="" if new is None else _text(new),
                        within=statement,
                        reason=why,
                        parent=node,
                        field=field,
                        index=index,
                        node=new,
                    )
                yield from self._in(child, inside, statement, why)

    def _changes(self, parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST | None]:
        if field == "test" and isinstance(parent, ast.If | ast.IfExp | ast.While):
            yield from (ast.Constant(True), ast.Constant(False))
        if field == "ifs" or (isinstance(parent, ast.Match) and field == "cases" and len(parent.cases) > 1):
            yield None
        if field == "guard":
            yield None
        if (
            field == "elts"
            and isinstance(parent, ast.Tuple | ast.List | ast.Set)
            and isinstance(parent.elts[0], ast.AST)
        ):
            yield from self._without(parent, node)
        if field == "keywords" and isinstance(node, ast.keyword) and node.arg and not _is_bool(node.value):
            yield None
        match node:
            case ast.BoolOp(op=op, values=values):
                yield ast.BoolOp(op=ast.And() if isinstance(op, ast.Or) else ast.Or(), values=values)
                for left_out in range(len(values)):
                    rest = values[:left_out] + values[left_out + 1 :]
                    yield rest[0] if len(rest) == 1 else ast.BoolOp(op=op, values=rest)
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield operand
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for place, op in enumerate(ops):
                    for other in FLIPPED[type(op)]:
                        yield ast.Compare(
                            left=left, ops=[*ops[:place], other(), *ops[place + 1 :]], comparators=comparators
                        )
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                yield ast.BinOp(left=left, op=ARITHMETIC[type(op)](), right=right)
            case ast.Constant(value=bool() as value):
                yield ast.Constant(not value)
            case ast.Constant(value=int() as value):
                yield ast.Constant(value + 1)
            case ast.Constant(value=str() as value) if _decides(parent, field):
                yield ast.Constant(value + "X")
            case ast.Attribute(value=ast.Name(id=enum), attr=attr) if attr in self._members.get(enum, ()):
                yield from self._other_members(enum, attr)
            case ast.Call(func=ast.Name(id=name) as func, args=args, keywords=keywords) if name in CALLS:
                yield ast.Call(func=ast.Name(CALLS[func.id], ast.Load()), args=args, keywords=keywords)
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in TRANSPARENT:
                yield ast.Call(func=ast.Name("list", ast.Load()), args=[first], keywords=[])
            case ast.Return(value=value) if value is not None and not _is_nothing(value):
                yield ast.Return(value=ast.Constant(None))
            case ast.Return() if not isinstance(parent, ast.FunctionDef):
                yield ast.Pass()
            case ast.Continue() | ast.Break() | ast.AugAssign():
                yield ast.Pass()
            case ast.Expr(value=value) if not isinstance(value, ast.Constant):
                yield ast.Pass()
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield ast.Pass()

    def _other_members(self, enum: str, attr: str) -> Iterator[ast.AST]:
        members = self._members[enum]
        for step in (1, 2):
            other = members[(members.index(attr) + step) % len(members)]
            if other != attr:
                yield ast.Attribute(ast.Name(enum, ast.Load()), other, ast.Load())

    def _without(self, parent: ast.Tuple | ast.List | ast.Set, node: ast.AST) -> Iterator[ast.AST | None]:
        if isinstance(getattr(parent, "ctx", ast.Load()), ast.Load) and isinstance(
            node, ast.Name | ast.Attribute | ast.Starred
        ):
            yield None


def _enum_members(tree: ast.Module, root: Path) -> dict[str, list[str]]:
    """Return the members of each enum that the module defines or imports from this project."""
    found = _enums_in(tree)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            source = root / (node.module.replace(".", "/") + ".py")
            if source.exists():
                there = _enums_in(ast.parse(source.read_text()))
                found |= {name.asname or name.name: there[name.name] for name in node.names if name.name in there}
    return found


def _imports(tree: ast.Module, module: str, name: str) -> bool:
    sources = (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == module)
    return any(one.name == name for source in sources for one in source.names)


def _enums_in(tree: ast.Module) -> dict[str, list[str]]:
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return {
        node.name: [
            target.id
            for a in node.body
            if isinstance(a, ast.Assign)
            for target in a.targets
            if isinstance(target, ast.Name)
        ]
        for node in classes
        if any(isinstance(base, ast.Name) and base.id.endswith("Enum") for base in node.bases)
    }


NO_TIME = "0 where there is no time: one millisecond is as good"
WORDING = frozenset(
    {"fact", "why", "evidence", "rests_on", "summary", "source", "text", "said", "detail", "reason", "message"}
)
"""Arguments and variables that hold what a person reads."""


def _not_counted(node: ast.AST, shown: str) -> str:
    """Return why nothing below this node counts, or nothing."""
    match node:
        case ast.Assign(value=ast.Subscript(value=ast.Name(id="Callable" | "tuple"))):
            return "a type"
        case ast.JoinedStr():
            return "wording: a formatted text"
        case ast.Raise() | ast.Assert():
            return "wording: the text of an error"
        case ast.Call(func=ast.Name(id=name)) if name == shown:
            return "wording: evidence"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="logger" | "log" | "LOG"))):
            return "logging"
        case ast.keyword(arg=arg) if arg in WORDING:
            return f"wording: {arg}"
        case ast.keyword(arg="strict"):
            return "a check of our own code: lists that are made of each other are of one length"
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if name in WORDING:
            return f"wording: {name}"
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return "wording: a repr"
        case ast.FunctionDef(returns=returns) if shown and returns is not None and ast.unparse(returns) in EVIDENCE:
            return "wording: evidence"
    return ""


EVIDENCE = ("Evidence", "tuple[Evidence, ...]", "list[Evidence]")


def _of_place(parent: ast.AST, field: str, index: int | None) -> str:
    """Return why a node does not count in its place: what a verdict rests on is read by a person; no time is earlier than 1970."""
    match parent:
        case ast.Call(func=ast.Name(id="Judgement")) if (field, index) == ("args", 2):
            return "wording: rests_on"
        case ast.BoolOp(op=ast.Or(), values=[*others, ast.Constant(value=0)]) if index == len(others):
            return NO_TIME if ast.unparse(others[-1]).endswith("_ms") else ""
        case ast.arguments() if field in ("defaults", "kw_defaults") and index is not None:
            names = parent.args[-len(parent.defaults) :] if field == "defaults" else parent.kwonlyargs
            default = getattr(parent, field)[index]
            is_zero = isinstance(default, ast.Constant) and default.value == 0
            return NO_TIME if is_zero and names[index].arg.endswith("_ms") else ""
    return ""


def _decides(parent: ast.AST, field: str) -> bool:
    if isinstance(parent, ast.Call):
        return field == "args" and isinstance(parent.func, ast.Attribute) and parent.func.attr in TEXT_METHODS
    return isinstance(parent, ast.Compare | ast.MatchValue | ast.Subscript)


def _is_bool(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _is_nothing(node: ast.AST) -> bool:
    """Say whether a result is None, False or an empty text: who asks takes one as the other."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False or node.value == "")


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.match_case):
        return f"case {ast.unparse(node.pattern)}"
    if isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.FunctionDef | ast.ClassDef | ast.Match):
        return ast.unparse(node).partition("\n")[0]
    return " ".join(ast.unparse(copy.copy(node)).split())
