"""CUDA code, built twice from the same sources: by nvcc for a GPU and by g++ for the emulator."""

load("@cuda//:have.bzl", "HAVE", "NVCC")
load("//tools/bazel:tenon.bzl", "fast_copts", "tenon_library")

_ARCHITECTURES = select({
    "//tools/bazel:all_archs": [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_100,code=sm_100",
        "-gencode=arch=compute_100,code=compute_100",
    ],
    # One pass of the compiler serves both: no kernel has code that only sm_90 could run.
    "//conditions:default": ["-gencode=arch=compute_80,code=[sm_90,compute_80]"],
})

# How the access checker sees what a kernel touches: calls in front of every access, which
# tests/simt answers. ThreadSanitizer's own library is not linked. What the compiler turns into
# memcpy or masked stores would not be seen.
CHECKED_COPTS = fast_copts([
    "-O2",
    "-g1",
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "-fno-tree-loop-distribute-patterns",
    "-fno-tree-vectorize",
])

def _nvcc_objects(ctx):
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    includes = depset(transitive = [
        context.includes,
        context.quote_includes,
        context.system_includes,
    ]).to_list()
    objects = []
    reports = []
    for source in ctx.files.srcs:
        stem = source.basename[:-len(".cu")]
        object = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, stem))
        report = ctx.actions.declare_file("%s/%s.ptxas.txt" % (ctx.label.name, stem))
        ctx.actions.run_shell(
            inputs = depset([source], transitive = [context.headers]),
            outputs = [object, report],
            command = "\"$@\" >{0} 2>&1 || {{ cat {0} >&2; exit 1; }}".format(report.path),
            arguments = [
                ctx.attr.nvcc,
                "-c",
                source.path,
                "-o",
                object.path,
                "-std=c++20",
                "-O3",
                "--expt-relaxed-constexpr",
                # As on the CPU: an element must not depend on which code path computed it.
                "-fmad=false",
                "-Xptxas=-v",
                "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror",
                "-Werror=all-warnings",
                "-lineinfo",
            ] + ctx.attr.archs + ["-I" + include for include in includes],
            mnemonic = "Nvcc",
            progress_message = "Compiling %s for the GPU" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)
        reports.append(report)
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(reports = depset(reports)),
    ]

nvcc_objects = rule(
    implementation = _nvcc_objects,
    doc = "Compiles .cu files. The output group `reports` has each one's registers and spills.",
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "nvcc": attr.string(mandatory = True),
        "archs": attr.string_list(mandatory = True),
    },
    fragments = ["cpp"],
)

def cuda_library(name, srcs = [], kernels = [], hdrs = [], deps = [], libraries = [], **kwargs):
    """Code of the CUDA plug-in: NAME for the GPU, NAME_emulated and NAME_checked for the emulator.

    Without a CUDA toolkit all three are empty.

    Args:
      name: of the library.
      srcs: .cc files, host code.
      kernels: .cu files.
      hdrs: headers; included by their full path.
      deps: libraries of headers only, besides other cuda_libraries' own names.
      libraries: of CUDA that the code for the GPU calls, "cudnn" for example.
      **kwargs: visibility and the like.
    """
    prefix = "tenon/" + native.package_name()
    if not HAVE:
        for variant in ["_headers", "", "_emulated", "_checked"]:
            native.cc_library(name = name + variant, **kwargs)
        return
    native.cc_library(
        name = name + "_headers",
        hdrs = hdrs,
        include_prefix = prefix,
        deps = deps + ["@cuda//:headers"],
        **kwargs
    )
    own = [":%s_headers" % name]
    if kernels:
        nvcc_objects(
            name = name + "_nvcc",
            srcs = kernels,
            archs = _ARCHITECTURES,
            nvcc = NVCC,
            deps = own,
            **kwargs
        )
    for kernel in kernels:
        native.genrule(
            name = kernel + "_emulated",
            srcs = [kernel],
            outs = [kernel[:-len(".cu")] + "_cu.cc"],
            cmd = "{ echo '#line 1 \"%s/%s\"'; cat $<; } > $@" % (native.package_name(), kernel),
        )
    emulated = [kernel[:-len(".cu")] + "_cu.cc" for kernel in kernels]
    tenon_library(
        name = name,
        srcs = srcs + ([":%s_nvcc" % name] if kernels else []),
        linkopts = ["-l" + library for library in libraries],
        deps = own + ["@cuda//:cuda"],
        **kwargs
    )
    for variant, copts in {"_emulated": fast_copts(["-O2"]), "_checked": CHECKED_COPTS}.items():
        tenon_library(
            name = name + variant,
            srcs = srcs + emulated,
            # Kernels look at the bytes of shared memory as they like, and `#pragma unroll` is nvcc's.
            copts = [
                "-fno-strict-aliasing",
                "-ffp-contract=off",
                "-Wno-sequence-point",  # g++ 12 takes the ++ of an expanded pack for several
                "-Wno-unknown-pragmas",
            ] + copts,
            deps = own + ["//tests/simt:device"],
            # Only the tests of //tests:more need it.
            tags = ["manual"] if variant == "_checked" else [],
            **kwargs
        )

# How the emulator runs a test: each variant's environment and tags. Those tagged `manual` are part
# of //tests:more, for .ci/run; tools/test.sh runs the others.
_CUDA_VARIANTS = {
    "cuda": [{"TENON_CUDA": "emulated"}, []],
    "cuda_async_1": [{
        "TENON_CUDA": "emulated",
        "TENON_SIMT_MODE": "async",
        "TENON_SIMT_SEED": "1",
    }, ["manual"]],
    "cuda_async_2": [{
        "TENON_CUDA": "emulated",
        "TENON_SIMT_MODE": "async",
        "TENON_SIMT_SEED": "2",
    }, ["manual"]],
    "cuda_checked": [{"TENON_CUDA": "checked"}, ["manual"]],
}

MORE_CUDA_VARIANTS = [name for name, variant in _CUDA_VARIANTS.items() if "manual" in variant[1]]

def cuda_tests(name, program, mpi_ranks = 0, data = [], variants = _CUDA_VARIANTS.keys(), tags = [], **kwargs):
    """Tests that run `program` once more, with its tensors on the emulated CUDA device.

    They are NAME_cuda, NAME_cuda_async_1 and so on; none without a CUDA toolkit.

    Args:
      name: of the test on the CPU.
      program: the test's program.
      mpi_ranks: as for tenon_test; one number.
      data: files that the program reads.
      variants: which of _CUDA_VARIANTS.
      tags: further tags.
      **kwargs: of the tests.
    """
    if not HAVE:
        return
    for variant in variants:
        env, more = _CUDA_VARIANTS[variant]
        native.sh_test(
            name = "%s_%s" % (name, variant),
            srcs = ["//tools/bazel:run_test.sh"],
            # Cases tagged [host] are about what only the host does.
            args = [str(mpi_ranks), "$(rootpath %s)" % program, "~[host]~[.]"],
            data = data + [
                program,
                "//tools:libtenon_cuda_%s.so" % env["TENON_CUDA"],
            ],
            env = dict(env, TENON_PLUGIN_DIR = "tools", TENON_TEST_DEVICE = "cuda"),
            tags = tags + more + (["cpu:2", "mpi"] if mpi_ranks else []),
            **kwargs
        )
