// Files of token numbers, mapped into memory: a large one takes no memory of its own, and the
// ranks of a node share what has been read. Reading trusts nothing: every Error is bad_data and
// names the file, what was found and what was wanted. All numbers are little-endian.
#pragma once

#include <span>
#include <string>

#include "tenon/nn/data/tokens.h"

namespace tenon {

// llm.c's files begin with 256 int32: a magic number, a version, the number of tokens.
// nanoGPT's have no header.
enum class TokenFormat {
  detect,   // by the magic number; a file without one is nanoGPT's
  gpt2,     // llm.c for GPT-2: magic 20240520, version 1, tokens of 2 bytes
  llama3,   // llm.c for Llama 3: magic 20240801, version 7, tokens of 4 bytes
  nanogpt,  // tokens of 2 bytes and nothing else
};

struct TokenFileOptions {
  TokenFormat format = TokenFormat::detect;
  // If it is given, the file is read through once to see that all tokens are below it.
  int64_t vocab_size = 0;
};

Tokens read_token_file(const std::string& path, TokenFileOptions options = {});

// Replaces what was at `path`.
void write_token_file(const std::string& path, std::span<const int32_t> tokens,
                      TokenFormat format = TokenFormat::gpt2);

}  // namespace tenon
