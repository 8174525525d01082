"""What Fortran takes C's functions for, as gfortran words it in C, and what benchio.h says."""

import re
import shutil

import pytest
from conftest import ROOT, run

LIB = ROOT / "src/benchio/lib"
MODULES = ROOT / "build/benchio/modules"

#: Of equal size: Fortran has no unsigned integers, and a byte is a letter. None: any pointer.
SIZES = {"char": 1, "int8_t": 1, "signed char": 1, "unsigned char": 1, "int": 4, "int32_t": 4,
         "long": 8, "int64_t": 8, "uint64_t": 8, "double": "double", "void": None}  # fmt: skip
PROTOTYPE = re.compile(r"^(?:_Noreturn )?(\w[\w ]*?) ?(\*?) ?(\w+) ?\(([^()]*)\)", re.MULTILINE)
STRUCT = re.compile(r"struct (\w+) \{(.*?)\}", re.DOTALL)
CODE = " ".join(file.read_text() for file in LIB.rglob("*.c"))
HEADER = (LIB / "posix/benchio.h").read_text()
#: Fortran's names of structures where they are not C's.
STRUCTURES = {"end_notice": "notice", "c_mounted": "mounted"}


def kind(text):
    """The size of what a declaration declares, and whether it is a pointer to that."""
    text = re.sub(r"/\*.*?\*/|\bconst\b|\b_Atomic\b|\bstruct\b", "", text).strip()
    match = re.match(r"((?:(?:un)?signed )?\w+)\s*(\*?)\s*\w*(\[\w*\])?$", text)
    assert match, text
    name, star, bounds = match.groups()
    return SIZES.get(name, STRUCTURES.get(name, name)), bool(star or bounds)


def prototypes(text):
    return {
        name: (kind(result + star), [kind(word) for word in arguments.split(",") if word.strip()])
        for result, star, name, arguments in PROTOTYPE.findall(text.replace("(void)", "()"))
    }


def structures(text, names=("content", "file_set", "sight", "mounted", "notice")):
    """The members of what both pass to each other: their sizes, and how many there are of each."""
    text = re.sub(r"/\*.*?\*/", "", text)
    found = {}
    for name, body in STRUCT.findall(text):
        members = []
        if STRUCTURES.get(name, name) not in names:
            continue
        for line in filter(str.strip, body.split(";")):
            base, first = line.strip().rsplit(" ", 1) if "," not in line else line.split(None, 1)
            members += [
                (SIZES[base.strip()], *re.findall(r"\[(\d+)\]", word)) for word in first.split(",")
            ]
        found[STRUCTURES.get(name, name)] = members
    return found


def agree(ours, theirs):
    (size, is_pointer), (other, other_is_pointer) = ours, theirs
    return is_pointer == other_is_pointer and (None in (size, other) or size == other)


def of_fortran(source, modules, scratch):
    """What gfortran says of a file's interfaces, in C."""
    places = [f"-I{folder}" for folder in modules]
    done = run(
        ["gfortran", "-fsyntax-only", "-fc-prototypes", "-cpp", *places, "-J", scratch, source]
    )
    assert done.code == 0, done.err
    functions = prototypes(done.out)
    # Of one that has its interface from another it says nothing.
    for interface, name in re.findall(
        r"procedure\((\w+)\), bind\(C, name='(\w+)'\)", source.read_text()
    ):
        functions[name] = functions[interface]
    return functions, structures(done.out)


def wrong(header, source, modules, scratch):
    """What a source takes for something else than the header."""
    functions, of_c = prototypes(header), structures(header)
    ours, types = of_fortran(source, modules, scratch)
    for name, (result, arguments) in ours.items():
        if name.startswith("benchio_") and name in functions:
            expected = functions[name]
            pairs = zip(arguments, expected[1], strict=False)
            if len(arguments) != len(expected[1]) or not all(agree(*pair) for pair in pairs):
                yield f"{name}: {arguments}, not {expected[1]}"
            if not agree(result, expected[0]):
                yield f"{name} returns {result}, not {expected[0]}"
        elif name.startswith("benchio_") and name in CODE:
            yield f"{name} is not declared"
    for name in types.keys() & of_c.keys():
        if types[name] != of_c[name]:
            yield f"{name}: {types[name]}, not {of_c[name]}"


@pytest.fixture(scope="module")
def modules():
    if shutil.which("gfortran") is None or not MODULES.is_dir():
        pytest.skip("there is no gfortran, or no benchio that it has built: make setup")
    cache = (MODULES.parent / "CMakeCache.txt").read_text()
    of_mpi = re.findall(r"^MPI_Fortran_(?:COMPILER_INCLUDE|MODULE)_DIRS?:.+?=(.+)$", cache, re.M)
    return [MODULES, *";".join(of_mpi).split(";")]


SOURCES = sorted(
    str(file.relative_to(LIB))
    for file in LIB.rglob("*.f90")
    if "name='benchio_" in file.read_text()
)


@pytest.mark.parametrize("source", SOURCES)
def test_fortran_takes_a_function_for_what_c_has(source, modules, tmp_path):
    """The C compiler sees that a definition is as benchio.h declares it."""
    assert list(wrong(HEADER, LIB / source, modules, tmp_path)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int64_t bytes, void *to);", "int32_t bytes, void *to);"),
        ("int64_t index, int64_t key);", "int64_t index, int64_t *key);"),
        ("int64_t benchio_key(", "int32_t benchio_key("),
        ("const char *text, int64_t length);", "const char *text);"),
        ("    double tolerance;", "    int64_t tolerance;"),
    ],
)
def test_a_difference_is_seen(old, new, modules, tmp_path):
    assert old in HEADER
    header = HEADER.replace(old, new)
    assert list(wrong(header, LIB / "verify/pattern.f90", modules, tmp_path))


def test_a_folder_uses_those_above_it_alone():
    """In the order in which CMakeLists.txt lists them."""
    build = (ROOT / "src/benchio/CMakeLists.txt").read_text()
    listed = re.findall(
        r"^  lib/(?:(\w+)/)?\w+\.", build.split("set(hdf5_sources")[0], re.MULTILINE
    )
    order = list(dict.fromkeys(listed))
    assert order[-1] == ""
    files = {f"benchio_{file.stem}": file for file in LIB.rglob("*.?90")}
    folder = {name: file.relative_to(LIB).parent.name for name, file in files.items()}
    wrong = [
        f"{folder[name]}/{file.name} uses {other} of {folder[other]}"
        for name, file in files.items()
        for other in re.findall(r"^ *use (benchio_\w+)", file.read_text(), re.MULTILINE)
        if order.index(folder[other]) > order.index(folder[name])
    ]
    assert wrong == []
