"""The rules that our BUILD files use: the native ones with our warnings, OpenMP and Catch2."""

load("@host//:cpu.bzl", "CPU")

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    # g++ 12 warns about the library's own std::sort of a small array; ASan finds the real ones.
    "-Wno-array-bounds",
    "-Wno-stringop-overflow",
] + select({
    # With -fsanitize it loses track of what is initialized, also in the library and in intrinsics.
    "//tools/bazel:sanitizer": [
        "-Wno-maybe-uninitialized",
        "-Wno-uninitialized",
    ],
    "//conditions:default": [],
})

# "native" alone would let a shared cache hand one machine's objects to another.
_CPU_COPTS = select({
    "//tools/bazel:portable": ["-march=x86-64-v2"],
    "//conditions:default": [
        "-march=native",
        "-DTENON_BUILD_CPU=%s" % CPU,
    ],
})

_OPENMP_COPTS = select({
    "//tools/bazel:no_openmp": ["-Wno-unknown-pragmas"],
    "//conditions:default": ["-fopenmp"],
})

_COPTS = _WARNINGS + _CPU_COPTS + _OPENMP_COPTS

_OPENMP_LINKOPTS = select({
    "//tools/bazel:no_openmp": [],
    "//conditions:default": ["-fopenmp"],
})

def fast_copts(flags):
    """Flags that an optimized build adds and a sanitizer build leaves out."""
    return select({
        "//tools/bazel:sanitizer": [],
        "//conditions:default": flags,
    })

def tenon_library(
        name,
        srcs = [],
        hdrs = [],
        deps = [],
        copts = [],
        linkopts = [],
        alwayslink = True,
        plugin_headers = None,
        **kwargs):
    """A cc_library whose headers are included by their full path: "tenon/core/dtype.h".

    Programs and libtenon.so hold all of it, used or not: kernels register themselves, and plug-ins
    and users' programs find symbols there that nothing else may have asked for. A plug-in may hold
    none of it, else each side had its own allocator: it depends on NAME_headers, which is made when
    `plugin_headers` lists what those headers include in turn.
    """
    prefix = "tenon/" + native.package_name() if native.package_name() else "tenon"
    if plugin_headers != None:
        native.cc_library(
            name = name + "_headers",
            hdrs = hdrs,
            include_prefix = prefix,
            visibility = kwargs.get("visibility"),
            deps = plugin_headers,
        )
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        deps = deps,
        copts = _COPTS + copts,
        linkopts = _OPENMP_LINKOPTS + linkopts,
        include_prefix = prefix,
        linkstatic = True,
        alwayslink = alwayslink,
        **kwargs
    )

def tenon_binary(name, srcs = [], deps = [], copts = [], linkopts = [], **kwargs):
    """A program; -rdynamic lets a plug-in that it opens find our symbols in it."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        deps = deps,
        copts = _COPTS + copts,
        linkopts = _OPENMP_LINKOPTS + ["-rdynamic", "-ldl", "-pthread"] + linkopts,
        **kwargs
    )

def tenon_test_program(name, copts = [], **kwargs):
    """A tenon_binary of tests, compiled faster: their own code is nothing that takes time."""
    tenon_binary(
        name = name,
        copts = fast_copts(["-O1"]) + copts,
        testonly = True,
        **kwargs
    )

def tenon_test(
        name,
        srcs,
        deps = [],
        mpi_ranks = 0,
        size = "medium",
        timeout = None,
        tags = [],
        args = [],
        data = [],
        env = None,
        main = "//tests/support:main",
        **kwargs):
    """One Catch2 program, linked once, and a test that runs it.

    Args:
      name: of the test. With a list of rank counts the tests are NAME_2, NAME_3, … and NAME is the
        suite of all of them.
      srcs: the *_test.cc files; the main function comes from `main`.
      deps: libraries that the sources include.
      mpi_ranks: 0 runs the program directly, N under mpirun with N ranks, [2, 3] each in turn.
      size: of a single run, as for any Bazel test.
      timeout: overrides the one that follows from size.
      tags: "tsan" marks the tests that --config=tsan runs.
      args: further arguments of the program.
      data: files that the program reads.
      env: environment of the run.
      main: the library with the main function.
      **kwargs: go to the program.
    """
    program = name + "_program"
    tenon_test_program(
        name = program,
        srcs = srcs,
        deps = deps + [main],
        tags = tags,
        **kwargs
    )
    many = type(mpi_ranks) == type([])
    names = []
    for ranks in (mpi_ranks if many else [mpi_ranks]):
        names.append("%s_%d" % (name, ranks) if many else name)
        native.sh_test(
            name = names[-1],
            srcs = ["//tools/bazel:run_test.sh"],
            args = [str(ranks), "$(rootpath :%s)" % program] + args,
            data = [":" + program] + data,
            env = env,
            size = size,
            timeout = timeout,
            # Ranks share the cores: more than one such test at a time only slows each down.
            tags = tags + (["cpu:2", "mpi"] if ranks else []),
        )
    if many:
        native.test_suite(
            name = name,
            tests = [":" + n for n in names],
        )
