"""Changes of code that alter rows, changes that alter none, and code that is refused."""

from __future__ import annotations

PIPELINE = """
import headrace as hr
{head}

class Convert(hr.Processor):
    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(n={use})

lines = hr.Topic("lines", key="a STRING", value="n BIGINT")
node = lines.process(Convert, output="n BIGINT").named("converted")
"""


def pipeline(head: str, use: str) -> str:
    """A module with a processor."""
    return PIPELINE.format(head=head, use=use)


# For each: what stands in the module, what the processor uses, a text of it, and the text after the change.
CHANGES = {
    "a plain number": ("LIMIT = 3", "LIMIT", "3", "4"),
    "a regular expression": ("import re\nWORD = re.compile('a+')", "WORD.match(record['a'])", "'a+'", "'a*'"),
    "flags of a regular expression": (
        "import re\nWORD = re.compile('a', 0)",
        "WORD.match('a')",
        "0)",
        "re.I)",
    ),
    "a time zone": (
        "from zoneinfo import ZoneInfo\nZONE = ZoneInfo('Europe/Berlin')",
        "ZONE.utcoffset(None)",
        "Berlin",
        "London",
    ),
    "a frozen dataclass": (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Rate:\n    euro: int\nRATE = Rate(2)",
        "RATE.euro",
        "Rate(2)",
        "Rate(3)",
    ),
    "the default of a dataclass": (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Rate:\n    euro: int = 2",
        "Rate().euro",
        "int = 2",
        "int = 3",
    ),
    "an array": ("import array\nSTEPS = array.array('l', [1, 2])", "STEPS[0]", "[1, 2]", "[2, 2]"),
    "an array of NumPy": ("import numpy as np\nSTEPS = np.array([1, 2])", "STEPS[0]", "[1, 2]", "[1, 3]"),
    "the type of an array": ("import numpy as np\nX = np.array([1], 'i4')", "X[0]", "i4", "u4"),
    "an array of Arrow": ("import pyarrow as pa\nSTEPS = pa.array([1, 2])", "STEPS[0]", "[1, 2]", "[2, 2]"),
    "a table of pandas": ("import pandas as pd\nSTEPS = pd.Series([1, 2])", "STEPS[0]", "[1, 2]", "[2, 2]"),
    "a decimal": ("from decimal import Decimal\nRATE = Decimal('1.50')", "RATE", "1.50", "1.5"),
    "a date and time": ("from datetime import datetime\nT = datetime(2026, 1, 1)", "T.year", "2026", "2027"),
    "a fraction": ("from fractions import Fraction\nHALF = Fraction(1, 2)", "HALF", "1, 2", "1, 3"),
    "an enum of the package": (
        "from enum import Enum\nclass Kind(Enum):\n    A = 1\n    B = 2\nCHOSEN = Kind.A",
        "CHOSEN.value",
        "A = 1",
        "A = 3",
    ),
    "the member of an enum": (
        "from enum import Enum\nclass Kind(Enum):\n    A = 1\n    B = 2\nCHOSEN = Kind.A",
        "CHOSEN.value",
        "Kind.A",
        "Kind.B",
    ),
    "an object of a class": (
        "class Scale:\n    def __init__(self, by): self.by = by\n    def of(self, n): return n * self.by\nBY = Scale(2)",
        "BY.of(1)",
        "Scale(2)",
        "Scale(3)",
    ),
    "the method of an object's class": (
        "class Scale:\n    def of(self, n): return n * 2\nBY = Scale()",
        "BY.of(1)",
        "n * 2",
        "n * 3",
    ),
    "a named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\nAT = P(1, 2)",
        "AT.x",
        "P(1",
        "P(2",
    ),
    "bytes": ("SIGN = b'ab'", "SIGN", "b'ab'", "b'ac'"),
    "the order of a mapping": ("NAMES = {1: 'a', 2: 'b'}", "[*NAMES][0]", "1: 'a', 2: 'b'", "2: 'b', 1: 'a'"),
    "a set": ("NAMES = {'a', 'b'}", "len(NAMES)", "'b'", "'c'"),
    "the kind of a number": ("LIMIT = 3", "LIMIT / 2", "= 3", "= 3.0"),
    "a function": ("def half(n):\n    return n // 2", "half(3)", "// 2", "// 3"),
    "a function under cache": (
        "from functools import cache\n@cache\ndef half(n):\n    return n // 2",
        "half(3)",
        "// 2",
        "// 3",
    ),
    "a constant of a function under cache": (
        "from functools import lru_cache\nBY = 2\n@lru_cache(maxsize=9)\ndef half(n):\n    return n // BY",
        "half(3)",
        "BY = 2",
        "BY = 3",
    ),
    "a function in a partial": (
        "from functools import partial\ndef part(n, by):\n    return n // by\nhalf = partial(part, by=2)",
        "half(3)",
        "n // by",
        "n / by",
    ),
    "an argument of a partial": (
        "from functools import partial\ndef part(n, by):\n    return n // by\nhalf = partial(part, by=2)",
        "half(3)",
        "by=2",
        "by=3",
    ),
    "a function under a decorator": (
        "from functools import wraps\n"
        "def plus(f):\n    @wraps(f)\n    def inner(n):\n        return f(n) + 1\n    return inner\n"
        "BY = 2\n@plus\ndef half(n):\n    return n // BY",
        "half(3)",
        "BY = 2",
        "BY = 3",
    ),
    "a decorator": (
        "from functools import wraps\n"
        "def plus(f):\n    @wraps(f)\n    def inner(n):\n        return f(n) + 1\n    return inner\n"
        "@plus\ndef half(n):\n    return n // 2",
        "half(3)",
        "+ 1",
        "+ 2",
    ),
    "an argument of a decorator": (
        "from functools import wraps\nBY = 1\n"
        "def plus(by):\n    def of(f):\n        @wraps(f)\n        def inner(n):\n            return f(n) + by\n"
        "        return inner\n    return of\n@plus(BY)\ndef half(n):\n    return n // 2",
        "half(3)",
        "BY = 1",
        "BY = 2",
    ),
    "a function for a type": (
        "from functools import singledispatch\n@singledispatch\ndef of(n):\n    return 0\n"
        "@of.register\ndef _(n: int):\n    return n // 2",
        "of(3)",
        "// 2",
        "// 3",
    ),
    "a lambda": ("half = lambda n: n // 2", "half(3)", "// 2", "// 3"),
    "a lambda over two lines": ("half = (lambda n: n\n    // 2)", "half(3)", "// 2", "// 3"),
    "one of two lambdas in a line": (
        "half, third = lambda n: n // 2, lambda n: n // 3\nused = half",
        "used(3)",
        "used = half",
        "used = third",
    ),
    "a table of functions": (
        "def half(n):\n    return n // 2\nBY_NAME = {'half': half}",
        "BY_NAME['half'](3)",
        "// 2",
        "// 3",
    ),
    "a default": ("BY = 2\ndef half(n, by=BY):\n    return n // by", "half(3)", "BY = 2", "BY = 3"),
    "a variable around a function": (
        "def divide(by):\n    def of(n):\n        return n // by\n    return of\nhalf = divide(2)",
        "half(3)",
        "divide(2)",
        "divide(3)",
    ),
    "an attribute of a class": (
        "BY = 2\nclass Half:\n    by = BY",
        "Half.by",
        "BY = 2",
        "BY = 3",
    ),
    "a static method": (
        "class Half:\n    @staticmethod\n    def of(n):\n        return part(n)\ndef part(n):\n    return n // 2",
        "Half.of(3)",
        "// 2",
        "// 3",
    ),
    "a property": (
        "BY = 2\nclass Half:\n    @property\n    def by(self):\n        return BY",
        "Half().by",
        "BY = 2",
        "BY = 3",
    ),
    "a base class": (
        "BY = 2\nclass Base:\n    def of(self, n):\n        return n // BY\nclass Half(Base):\n    pass",
        "Half().of(3)",
        "BY = 2",
        "BY = 3",
    ),
    "an import within a function": (
        "def half(n):\n    from shop.helpers import BY\n    return n // BY",
        "half(3)",
        "BY = 2",
        "BY = 3",
    ),
    "a module that is imported within a function": (
        "def half(n):\n    import shop.helpers as helpers\n    return n // helpers.BY",
        "half(3)",
        "BY = 2",
        "BY = 3",
    ),
    "a submodule that is imported within a function": (
        "def half(n):\n    from . import helpers\n    return n // helpers.BY",
        "half(3)",
        "BY = 2",
        "BY = 3",
    ),
    "the constant of another module": (
        "from shop import helpers\nBY = 7",
        "helpers.BY + BY",
        "BY = 2",
        "BY = 3",
    ),
    "the constant of this module with the name of another's": (
        "from shop import helpers\nBY = 7",
        "helpers.BY + BY",
        "BY = 7",
        "BY = 8",
    ),
    "a constant of a function in another module": (
        "from shop.helpers import half\nBY = 7",
        "half(BY)",
        "BY = 2",
        "BY = 3",
    ),
    "the package's constant": ("import shop.helpers", "shop.helpers.BY", "BY = 2", "BY = 3"),
}
HELPERS = "BY = 2\n\ndef half(n):\n    return n // BY\n"


# For each: what stands in the module, what the processor uses, and what stands there instead.
SAME = {
    "an unrelated variable with the name of an attribute": ("match = 1", "record['a'].match()", "match = 2"),
    "a logger": (
        "import logging\nlog = logging.getLogger('a')",
        "log.name",
        "import logging\nlog = logging.getLogger('b')",
    ),
    "a variable that nothing uses": ("OTHER = 1", "1", "OTHER = 2"),
    "what a cache remembers": (
        "from functools import cache\n@cache\ndef half(n):\n    return n // 2",
        "half(3)",
        "from functools import cache\n@cache\ndef half(n):\n    return n // 2\n\nhalf(7)",
    ),
    "what a cached property remembers": (
        "from functools import cached_property\nclass Half:\n    @cached_property\n    def by(self):\n        return 2\n"
        "HALF = Half()",
        "HALF.by",
        "from functools import cached_property\nclass Half:\n    @cached_property\n    def by(self):\n        return 2\n"
        "HALF = Half()\nHALF.by",
    ),
    "how a set is written": ("NAMES = {'a', 'b'}", "len(NAMES)", "NAMES = {'b', 'a'}"),
}


REFUSED = {
    "a lock": (
        "import threading\nLOCK = threading.Lock()",
        "LOCK",
        "content of a lock",
        "Convert.process/LOCK",
        "in `init`",
    ),
    "a generator": (
        "NUMBERS = (n for n in [1])",
        "next(NUMBERS)",
        "content of a generator",
        "Convert.process/NUMBERS",
        "",
    ),
    "a file": (
        "import os\nLOG = open(os.devnull)",
        "LOG",
        "content of a TextIOWrapper",
        "Convert.process/LOG",
        "",
    ),
    "a module as a whole": (
        "from shop import helpers",
        "getattr(helpers, 'BY')",
        "what is used of module 'shop.helpers'",
        "Convert.process/helpers",
        "module.name",
    ),
    "a lock within an object": (
        "import threading\nclass Held:\n    def __init__(self): self.lock = threading.Lock()\nHELD = Held()",
        "HELD",
        "content of a lock",
        "Convert.process/HELD.state",
        "__reduce__",
    ),
    "eval": ("BY = 2", "eval('BY')", "what is reached by eval", "Convert.process", ""),
    "globals": ("BY = 2", "globals()['BY']", "what is reached by globals", "Convert.process", ""),
    "exec": ("BY = 2", "exec('BY')", "what is reached by exec", "Convert.process", ""),
    "__import__": (
        "import shop.helpers",
        "__import__('shop.helpers')",
        "what is reached by __import__",
        "Convert.process",
        "",
    ),
    "an import by a name": (
        "import importlib",
        "importlib.import_module('shop.helpers').BY",
        "what is reached by importlib.import_module",
        "Convert.process",
        "",
    ),
    "the modules of Python": (
        "import sys",
        "sys.modules['shop.helpers'].BY",
        "what is reached by sys.modules",
        "Convert.process",
        "",
    ),
    "the mapping of a module": (
        "from shop import helpers",
        "helpers.__dict__['BY']",
        "what is used of module 'shop.helpers'",
        "Convert.process",
        "",
    ),
    "a lock that is put into a class": (
        "import threading\nclass Half:\n    pass\nHalf.lock = threading.Lock()",
        "Half.lock",
        "content of a lock",
        "Convert.process",
        "",
    ),
}
