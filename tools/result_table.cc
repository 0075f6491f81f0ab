#include "tenon/tools/result_table.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

namespace tenon::tools {

void print_table(const Json& row) {
  std::string names, values;
  for (const auto& [name, value] : row.items()) {
    char text[32];
    if (value.is_number_float()) {
      std::snprintf(text, sizeof text, "%.4f", value.get<double>());
    } else {
      std::snprintf(text, sizeof text, "%s",
                    value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    }
    const size_t width = std::max(name.size(), std::string(text).size()) + 2;
    names += std::string(width - name.size(), ' ') + name;
    values += std::string(width - std::string(text).size(), ' ') + text;
  }
  std::cout << names << '\n' << values << std::endl;
}

Json environment(int ranks, int threads) {
  std::string cpu;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; cpu.empty() && std::getline(info, line);) {
    if (line.starts_with("model name")) cpu = line.substr(line.find(':') + 2);
  }
  return {{"cpu", cpu},
          {"cores", std::thread::hardware_concurrency()},
          {"ranks", ranks},
          {"threads", threads},
          {"git", git_revision()}};
}

}  // namespace tenon::tools
