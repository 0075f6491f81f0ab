#include "tenon/tools/cli.h"

#include <iostream>
#include <limits>

#include "tenon/core/check.h"

namespace tenon::tools {
namespace {

CLI::Validator bounded(double limit, bool limit_itself, const std::string& text) {
  return CLI::Validator(
      [=](const std::string& value) -> std::string {
        double number = 0;
        if (!CLI::detail::lexical_cast(value, number)) return value + " is not a number";
        const bool good = limit_itself ? number >= limit : number > limit;
        return good ? "" : str("given ", value, ", wanted ", text);
      },
      text);
}

}  // namespace

CommandLine::CommandLine(const std::string& description) : app_(description) {
  app_.set_help_flag("-h,--help", "Print this and exit");
  app_.set_config("--config", "", "File with flags, one `name = value` a line; flags win");
  app_.allow_config_extras(CLI::config_extras_mode::error);
  app_.get_formatter()->column_width(34);
}

CLI::Option* CommandLine::add_choice(const std::string& flag, std::string& value,
                                     const std::vector<std::string>& choices,
                                     const std::string& help) {
  return add(flag, value, help)->check(CLI::IsMember(choices));
}

CLI::Option* CommandLine::add_switch(const std::string& flag, bool& value,
                                     const std::string& help) {
  return app_.add_flag(flag, value, help)->group(heading_);
}

std::optional<int> CommandLine::parse(int argc, char** argv, bool print) {
  try {
    app_.parse(argc, argv);
    return {};
  } catch (const CLI::CallForHelp&) {
    if (print) std::cout << app_.help() << std::flush;
    return 0;
  } catch (const CLI::ParseError& error) {
    if (print) {
      std::cerr << app_.get_name() << ": " << error.what() << "\nvalid flags: " << valid_flags()
                << "\n(--help says more)" << std::endl;
    }
    return static_cast<int>(ErrorKind::usage) + 1;
  }
}

std::string CommandLine::valid_flags() const {
  std::string names;
  for (const CLI::Option* option : app_.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names += (names.empty() ? "--" : " --") + name;
    }
  }
  return names;
}

CLI::Validator at_least(double minimum) {
  return bounded(minimum, true, str("at least ", minimum));
}
CLI::Validator above(double minimum) { return bounded(minimum, false, str("above ", minimum)); }

}  // namespace tenon::tools
