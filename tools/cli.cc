#include "tenon/tools/cli.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>

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

Flag& Flag::at_least(double minimum) {
  option_->check(bounded(minimum, true, str("at least ", minimum)));
  return *this;
}
Flag& Flag::above(double minimum) {
  option_->check(bounded(minimum, false, str("above ", minimum)));
  return *this;
}
Flag& Flag::between(double minimum, double maximum) {
  option_->check(CLI::Range(minimum, maximum));
  return *this;
}
Flag& Flag::bytes() {
  option_->transform(CLI::AsSizeValue(false));
  return *this;
}

CommandLine::CommandLine(const std::string& description)
    : app_(std::make_unique<CLI::App>(description)) {
  app_->set_help_flag("-h,--help", "Print this and exit");
  app_->set_config("--config", "", "File with flags, one `name = value` a line; flags win");
  app_->allow_config_extras(CLI::config_extras_mode::error);
  app_->get_formatter()->column_width(34);
}

CommandLine::~CommandLine() = default;

template <class T>
Flag CommandLine::add(const std::string& flag, T& value, const std::string& help) {
  return Flag(app_->add_option(flag, value, help)->capture_default_str()->group(heading_));
}
template Flag CommandLine::add(const std::string&, int&, const std::string&);
template Flag CommandLine::add(const std::string&, int64_t&, const std::string&);
template Flag CommandLine::add(const std::string&, size_t&, const std::string&);
template Flag CommandLine::add(const std::string&, double&, const std::string&);
template Flag CommandLine::add(const std::string&, std::string&, const std::string&);
template Flag CommandLine::add(const std::string&, std::optional<int64_t>&, const std::string&);
template Flag CommandLine::add(const std::string&, std::optional<double>&, const std::string&);

void CommandLine::add_choice(const std::string& flag, std::string& value,
                             const std::vector<std::string>& choices, const std::string& help) {
  app_->add_option(flag, value, help)
      ->capture_default_str()
      ->group(heading_)
      ->check(CLI::IsMember(choices));
}

void CommandLine::add_switch(const std::string& flag, bool& value, const std::string& help) {
  app_->add_flag(flag, value, help)->group(heading_);
}

std::optional<int> CommandLine::parse(int argc, char** argv, bool print) {
  try {
    app_->parse(argc, argv);
    return {};
  } catch (const CLI::CallForHelp&) {
    if (print) std::cout << app_->help() << std::flush;
    return 0;
  } catch (const CLI::ParseError& error) {
    if (print) {
      std::cerr << app_->get_name() << ": " << error.what() << "\nvalid flags: " << valid_flags()
                << "\n(--help says more)" << std::endl;
    }
    return static_cast<int>(ErrorKind::usage) + 1;
  }
}

std::string CommandLine::valid_flags() const {
  std::string names;
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names += (names.empty() ? "--" : " --") + name;
    }
  }
  return names;
}

}  // namespace tenon::tools
