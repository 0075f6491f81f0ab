// Command lines of the programs, by CLI11 with our conventions: --config FILE holds the flags' own
// names and is read before the flags, --help shows defaults and units, and a wrong flag or value
// lists the valid ones and ends the program with status 2. CLI11 itself stays in cli.cc: it takes
// long to compile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tenon::tools {

// A flag that has been added; what is asked of its value.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  Flag& at_least(double minimum);
  Flag& above(double minimum);
  Flag& between(double minimum, double maximum);
  // A size: K, M and G are understood, as powers of 1024.
  Flag& bytes();

 private:
  CLI::Option* option_;
};

class CommandLine {
 public:
  // `description` is the first line of --help.
  explicit CommandLine(const std::string& description);
  ~CommandLine();

  // Flags added from now on stand under this heading of --help.
  void heading(const std::string& title) { heading_ = title; }
  // A flag with a value; `value` holds the default. T: int, int64_t, size_t, double,
  // std::string, optional of int64_t or double.
  template <class T>
  Flag add(const std::string& flag, T& value, const std::string& help);
  // One of `choices`.
  void add_choice(const std::string& flag, std::string& value,
                  const std::vector<std::string>& choices, const std::string& help);
  // True when given.
  void add_switch(const std::string& flag, bool& value, const std::string& help);

  // Nothing: go on. Otherwise the status to end with; what there is to say is printed by `print`
  // alone, so that ranks do not repeat each other.
  std::optional<int> parse(int argc, char** argv, bool print);

 private:
  std::string valid_flags() const;

  std::unique_ptr<CLI::App> app_;
  std::string heading_ = "Options";
};

}  // namespace tenon::tools
