// The CUDA side is a library of its own, opened at run time when somebody asks for a CUDA device:
// a program that links CUDA itself starts 0.8 s later and holds 200 MB more, GPU or not.
//
// $TENON_CUDA: empty = libtenon_cuda.so where the machine has a driver; off = none; emulated or
// checked = the builds of the same sources that run on the CPU, for tests; or the path of a file.
// Looked for in $TENON_PLUGIN_DIR, beside the program and in ../lib from there, beside libtenon.so.
#pragma once

#include <string>

namespace tenon {

struct CudaPlugin {
  bool loaded = false;
  std::string path;    // of the library, when loaded
  std::string reason;  // why there is none, and what to do about it
};

// Opens it the first time. Nothing is opened by a program that uses the CPU alone.
const CudaPlugin& cuda_plugin();

}  // namespace tenon
