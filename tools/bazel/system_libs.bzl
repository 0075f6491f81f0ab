"""Finds the libraries that the system provides and shows each one as a repository.

`@NAME//:NAME` is a cc_library: the library, or an empty one where an optional library is missing.
`load("@NAME//:have.bzl", "HAVE")` tells a BUILD file which of the two it is. To build as if an
optional library were missing: --repo_env=TENON_WITHOUT=onednn,cuda (--config=minimal).
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "{name}",
    hdrs = glob(["include/**"], allow_empty = True),
    includes = {includes},
    defines = {defines},
    linkopts = {linkopts},
)
"""

# What the emulator needs: it has functions of its own for those of the libraries.
_CUDA_HEADERS = """
cc_library(
    name = "headers",
    hdrs = glob(["include/**"], allow_empty = True),
    includes = {includes},
)
"""

def _first_existing(ctx, folders, file):
    for folder in folders:
        if ctx.path(folder + "/" + file).exists:
            return folder
    return None

def _multiarch(ctx):
    result = ctx.execute(["gcc", "-print-multiarch"])
    return result.stdout.strip() if result.return_code == 0 else ""

def _linkopts(ctx, lib_folders):
    """The linker flags of all ctx.attr.libs, or None when one of them is missing."""
    flags = []
    for lib in ctx.attr.libs:
        folder = _first_existing(ctx, lib_folders, "lib%s.so" % lib)
        if folder == None:
            return None
        if not folder.startswith("/usr/lib"):
            flags += ["-L" + folder, "-Wl,-rpath," + folder]
        flags.append("-l" + lib)
    return flags

def _system_library(ctx):
    arch = _multiarch(ctx)
    folders = [folder.format(arch = arch) for folder in ctx.attr.include_folders]
    lib_folders = [folder.format(arch = arch) for folder in ctx.attr.lib_folders]
    folder = _first_existing(ctx, folders, ctx.attr.header)
    linkopts = _linkopts(ctx, lib_folders)
    have = folder != None and linkopts != None
    if not ctx.attr.required and ctx.name in ctx.os.environ.get("TENON_WITHOUT", "").split(","):
        have = False
    if not have and ctx.attr.required:
        fail("%s is missing (looked for %s in %s): run tools/setup.sh, or apt-get install %s" %
             (ctx.name, ctx.attr.header, ", ".join(folders), ctx.attr.package))

    # /usr/include is searched anyway; as a system include of its own it would break #include_next.
    link_headers = have and folder != "/usr/include"
    if link_headers:
        ctx.symlink(folder, "include")
    ctx.file("BUILD", _BUILD.format(
        name = ctx.name,
        includes = ["include"] if link_headers else [],
        defines = (ctx.attr.defines + ctx.attr.have_defines) if have else [],
        linkopts = linkopts if have else [],
    ))
    ctx.file("have.bzl", "HAVE = %s\nINCLUDE = %s\n" % (have, repr(folder if have else "")))

system_library = repository_rule(
    implementation = _system_library,
    attrs = {
        "header": attr.string(mandatory = True, doc = "A header that proves the library is there."),
        "include_folders": attr.string_list(default = ["/usr/local/include", "/usr/include"]),
        "libs": attr.string_list(doc = "Linked as -lNAME; libNAME.so must exist."),
        "lib_folders": attr.string_list(
            default = ["/usr/local/lib", "/usr/lib/{arch}", "/usr/lib", "/usr/lib64"],
        ),
        "defines": attr.string_list(),
        "have_defines": attr.string_list(doc = "Defined only where the library is present."),
        "required": attr.bool(default = False),
        "package": attr.string(doc = "The Debian package to name when it is missing."),
    },
    environ = ["TENON_WITHOUT"],
    # Looked at again when the Bazel server starts, so that a new package is noticed.
    local = True,
    configure = True,
)

def _cuda_toolkit(ctx):
    asked = ctx.os.environ.get("CUDA_HOME", "")
    homes = [asked] if asked else ["/usr/local/cuda", "/usr/lib/cuda", "/opt/cuda"]
    if "cuda" in ctx.os.environ.get("TENON_WITHOUT", "").split(","):
        homes = []
    home = _first_existing(ctx, homes, "bin/nvcc")
    have = home != None and ctx.path(home + "/include/cuda_runtime.h").exists
    if have:
        ctx.symlink(home + "/include", "include")
    lib_folder = _first_existing(ctx, [home + "/lib64", home + "/lib"], "libcudart.so") if have else None
    linkopts = []
    if lib_folder:
        linkopts = ["-L" + lib_folder, "-Wl,-rpath," + lib_folder, "-lcudart"]
    ctx.file("BUILD", _BUILD.format(
        name = ctx.name,
        includes = ["include"] if have else [],
        defines = ["TENON_HAVE_CUDA=1"] if have else [],
        linkopts = linkopts,
    ) + _CUDA_HEADERS.format(includes = ["include"] if have else []))
    ctx.file("have.bzl", "HAVE = %s\nHOME = %s\nNVCC = %s\nLIB = %s\n" % (
        have,
        repr(home if have else ""),
        repr(home + "/bin/nvcc" if have else ""),
        repr(lib_folder or ""),
    ))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit,
    environ = ["CUDA_HOME", "TENON_WITHOUT"],
    local = True,
    configure = True,
)

def _host_cpu(ctx):
    """CPU: a name for the compiler and what -march=native stands for on this machine."""
    flags = ctx.execute(["grep", "-m1", "-E", "^(flags|Features)", "/proc/cpuinfo"]).stdout
    flags += ctx.execute(["gcc", "-dumpfullversion"]).stdout
    ctx.file("BUILD")
    ctx.file("cpu.bzl", "CPU = \"%s_%d\"\n" % (ctx.os.name, hash(flags) % 1000000007))

host_cpu = repository_rule(
    implementation = _host_cpu,
    local = True,
    configure = True,
)

def system_libraries():
    host_cpu(name = "host")
    system_library(
        name = "mpi",
        header = "mpi.h",
        include_folders = ["/usr/local/include", "/usr/lib/{arch}/openmpi/include"],
        libs = ["mpi"],
        # The C++ bindings are long gone from the standard and do not compile without warnings.
        defines = ["OMPI_SKIP_MPICXX=1"],
        required = True,
        package = "libopenmpi-dev",
    )
    system_library(
        name = "eigen",
        header = "Eigen/Core",
        include_folders = ["/usr/local/include/eigen3", "/usr/include/eigen3"],
        defines = ["EIGEN_MPL2_ONLY=1"],
        required = True,
        package = "libeigen3-dev",
    )
    system_library(
        name = "onednn",
        header = "oneapi/dnnl/dnnl.hpp",
        libs = ["dnnl"],
        have_defines = ["TENON_HAVE_ONEDNN=1"],
        package = "libdnnl-dev",
    )
    system_library(
        name = "catch2",
        header = "catch2/catch.hpp",
        required = True,
        package = "catch2",
    )
    system_library(
        name = "zlib",
        header = "zlib.h",
        libs = ["z"],
        required = True,
        package = "zlib1g-dev",
    )
    system_library(
        name = "json",
        header = "nlohmann/json.hpp",
        required = True,
        package = "nlohmann-json3-dev",
    )
    system_library(
        name = "cli11",
        header = "CLI/CLI.hpp",
        required = True,
        package = "libcli11-dev",
    )
    cuda_toolkit(name = "cuda")
