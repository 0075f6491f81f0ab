#!/bin/bash
# Writes compile_commands.json, for clangd and clang-tidy, from what Bazel would run.
# Usage: tools/compile_commands.sh [Bazel flags]
set -euo pipefail
cd "$(dirname "$0")/.."

flags=("$@")
external=$(bazel info "${flags[@]}" output_base 2>/dev/null)/external
bazel build "${flags[@]}" --show_result=0 -- //... >/dev/null 2>&1 ||
  echo "compile_commands.sh: the build fails; generated headers may be missing" >&2

# aquery prints each command over several lines, one argument a line.
bazel aquery "${flags[@]}" 'mnemonic("CppCompile", //...)' --output=text 2>/dev/null |
  awk -v root="$PWD" -v external="$external" '
    function json(text) { gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); return "\"" text "\"" }
    function unquote(text) {
      if (text ~ /^\x27.*\x27$/) text = substr(text, 2, length(text) - 2)
      gsub(/\x27\\\x27\x27/, "\x27", text)
      return text
    }
    function add(arg) {
      sub(/[ )]*\\?$/, "", arg); sub(/^ +/, "", arg)
      arg = unquote(arg)
      if (arg == "-fno-canonical-system-headers") return  # clang does not know it
      if (arg ~ /^external\//) sub(/^external/, external, arg)
      if (previous == "-c") file = arg
      if (arg == "-c") sources++
      args = args (args == "" ? "" : ", ") json(arg)
      previous = arg
    }
    /^  Command Line: \(exec / {
      inside = 1; args = ""; file = ""; previous = ""
      sub(/^  Command Line: \(exec /, "")
    }
    inside {
      last = $0 !~ /\\$/
      add($0)
      if (last) {
        inside = 0
        if (file != "" && !(file in seen)) {
          seen[file] = 1
          printf "%s  {\"directory\": %s, \"file\": %s, \"arguments\": [%s]}", count++ ? ",\n" : "[\n",
            json(root), json(file), args
        }
      }
    }
    END { print count ? "\n]" : "[]" }' >compile_commands.json
echo "compile_commands.json: $(grep -c '"directory"' compile_commands.json) files"
