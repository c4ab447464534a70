#include "options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <vector>

#include "calls.h"

namespace nnhal::ort_ep {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    const std::size_t first = text.find_first_not_of(' ', begin), last = text.find_last_not_of(' ', end - 1);
    if (end > begin && first < end) parts.push_back(text.substr(first, last - first + 1));
    begin = end + 1;
  }
  return parts;
}

[[noreturn]] void refuse(const std::string& key, const std::string& value, const std::string& expected) {
  throw Failure("option " + key + " is '" + value + "', expected " + expected);
}

template <typename Number>
Number number(const std::string& key, const std::string& value) {
  Number parsed{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < 0) refuse(key, value, "a whole number");
  return parsed;
}

int choice(const std::string& key, const std::string& value, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end()) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    refuse(key, value, "one of " + all);
  }
  return static_cast<int>(found - names.begin());
}

// "name=device; op:Conv=device"
std::vector<client::Pin> pins(const std::string& key, const std::string& value) {
  std::vector<client::Pin> found;
  for (const std::string& pin : split(value, ';')) {
    const std::size_t at = pin.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == pin.size()) refuse(key, value, "MATCH=DEVICE, parted by ';'");
    found.push_back({pin.substr(0, at), pin.substr(at + 1)});
  }
  return found;
}

// "x=1,3,0,0; y=8"
std::vector<client::InputDimensions> dimensions(const std::string& key, const std::string& value) {
  std::vector<client::InputDimensions> found;
  for (const std::string& input : split(value, ';')) {
    const std::size_t at = input.rfind('=');
    if (at == std::string::npos || at == 0) refuse(key, value, "INPUT=N,N,..., parted by ';'");
    client::InputDimensions& made = found.emplace_back();
    made.name = input.substr(0, at);
    for (const std::string& extent : split(input.substr(at + 1), ','))
      made.dimensions.push_back(number<std::uint32_t>(key, extent));
  }
  return found;
}

std::string token(const std::string& key, const std::string& value) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < value.size(); at += 2) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(value.data() + at, value.data() + at + 2, byte, 16);
    if (error != std::errc() || end != value.data() + at + 2) break;
    bytes += static_cast<char>(byte);
  }
  if (value.size() != 64 || bytes.size() != 32) refuse(key, value, "64 hexadecimal digits");
  return bytes;
}

void set(Options& options, const std::string& key, const std::string& value) {
  if (key == "directory")
    options.directory = value;
  else if (key == "devices")
    options.load.devices = split(value, ',');
  else if (key == "pins")
    options.load.pins = pins(key, value);
  else if (key == "partitioner")
    options.load.partitioner = choice(key, value, {"", "least_time", "nnapi", "cpu_only"});
  else if (key == "fallback")
    options.load.fallback = choice(key, value, {"", "allow", "warn", "deny"});
  else if (key == "relaxed")
    options.load.is_relaxed = choice(key, value, {"0", "1"});
  else if (key == "min_nodes_per_partition")
    options.load.min_nodes_per_partition = number<int>(key, value);
  else if (key == "dimensions")
    options.load.input_dimensions = dimensions(key, value);
  else if (key == "token")
    options.load.cache_token = token(key, value);
  else
    throw Failure("unknown option '" + key + "', expected directory, devices, pins, partitioner, fallback, relaxed, " +
                  "min_nodes_per_partition, dimensions or token");
}

}  // namespace

std::string default_directory() {
  const char* const named = std::getenv("NNHAL_FRAMEWORK");
  return named && *named ? named : "/run/nnhal/framework";
}

Options read_options(const OrtSessionOptions* session) {
  std::string prefix = "ep." + std::string(kProviderName) + ".";
  std::transform(prefix.begin(), prefix.end(), prefix.begin(), [](unsigned char c) { return std::tolower(c); });
  auto* const entries = read<OrtKeyValuePairs*>(ort().GetSessionOptionsConfigEntries, session);
  const char *const *keys = nullptr, *const *values = nullptr;
  std::size_t count = 0;
  ort().GetKeyValuePairs(entries, &keys, &values, &count);
  std::map<std::string, std::string> all;
  for (std::size_t index = 0; index < count; ++index) all.emplace(keys[index], values[index]);
  ort().ReleaseKeyValuePairs(entries);
  Options options;
  options.directory = default_directory();
  for (const auto& [key, value] : all)
    if (key.compare(0, prefix.size(), prefix) == 0) set(options, key.substr(prefix.size()), value);
  const auto context = all.find("ep.context_enable");
  options.makes_contexts = context != all.end() && context->second == "1";
  return options;
}

}  // namespace nnhal::ort_ep
