// Command lines of the programs, by CLI11 with our conventions: --config FILE holds the flags' own
// names and is read before the flags, --help shows defaults and units, and a wrong flag or value
// lists the valid ones and ends the program with status 2.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tools {

class CommandLine {
 public:
  // `description` is the first line of --help.
  explicit CommandLine(const std::string& description);

  CLI::App& app() { return app_; }
  // Flags added from now on stand under this heading of --help.
  void heading(const std::string& title) { heading_ = title; }
  // A flag with a value; `value` holds the default.
  template <class T>
  CLI::Option* add(const std::string& flag, T& value, const std::string& help) {
    return app_.add_option(flag, value, help)->capture_default_str()->group(heading_);
  }
  // One of `choices`.
  CLI::Option* add_choice(const std::string& flag, std::string& value,
                          const std::vector<std::string>& choices, const std::string& help);
  // True when given.
  CLI::Option* add_switch(const std::string& flag, bool& value, const std::string& help);

  // Nothing: go on. Otherwise the status to end with; what there is to say is printed by `print`
  // alone, so that ranks do not repeat each other.
  std::optional<int> parse(int argc, char** argv, bool print);

 private:
  std::string valid_flags() const;

  CLI::App app_;
  std::string heading_ = "Options";
};

// Checks for values.
CLI::Validator at_least(double minimum);
CLI::Validator above(double minimum);

}  // namespace tenon::tools
