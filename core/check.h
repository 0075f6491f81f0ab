// Errors. There is one exception type; its text has the form
//   [op] what is wrong: what was given, what is wanted
// Libraries never print, exit or fall back silently: they throw this.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tenon {

// What kind of failure an Error is; programs map it to their exit code.
enum class ErrorKind {
  failed,     // a wrong argument or a failed operation (exit code 1)
  usage,      // a wrong command line (exit code 2)
  peer_lost,  // another rank failed, was lost or hung (exit code 3)
  bad_data,   // a data file or a checkpoint is unreadable (exit code 4)
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text, ErrorKind kind = ErrorKind::failed)
      : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_) + 1; }

 private:
  ErrorKind kind_;
};

// Joins its arguments as a stream would.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// Throws Error("[op] parts…").
template <class... Parts>
[[noreturn]] void fail(const char* op, const Parts&... parts) {
  throw Error(str("[", op, "] ", parts...));
}

// A broken promise inside the library itself, not a user's mistake.
[[noreturn]] void internal_error(const char* file, int line, const char* condition);

}  // namespace tenon

// TENON_CHECK(condition, "op", parts…): throws Error when the condition does not hold.
#define TENON_CHECK(condition, op, ...) \
  do {                                  \
    if (!(condition)) [[unlikely]]      \
      ::tenon::fail(op, __VA_ARGS__);   \
  } while (false)

// For invariants of the library: the text says that this is a bug and where.
#define TENON_ASSERT(condition)                                \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      ::tenon::internal_error(__FILE__, __LINE__, #condition); \
  } while (false)
