#include "config.h"

#include <cstdlib>

#include "files.h"

namespace bk {
namespace {

Language ParseLanguage(std::string_view text) {
  if (text == "cuda") return Language::kCuda;
  if (text == "c++") return Language::kCxx;
  if (text == "c") return Language::kC;
  return Language::kNone;
}

// `cuda<TAB>old<TAB>new`
Rule ParseRule(std::string_view text) {
  const size_t first = text.find('\t');
  const size_t second = text.find('\t', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return Rule{};
  return Rule{std::string(text.substr(first + 1, second - first - 1)),
              std::string(text.substr(second + 1)), ParseLanguage(text.substr(0, first))};
}

// `name<TAB>value`; nothing if there is no tab.
void AddPair(std::string_view text, std::vector<std::pair<std::string, std::string>>* pairs) {
  const size_t tab = text.find('\t');
  if (tab != std::string_view::npos) pairs->emplace_back(text.substr(0, tab), text.substr(tab + 1));
}

void ParseEngineLine(std::string_view key, std::string_view value, Engine* engine) {
  if (key == "engine") {
    engine->program = value;
  } else if (key == "engine-variable") {
    AddPair(value, &engine->variables);
  } else if (key == "engine-reserved") {
    engine->reserved = value;
  } else if (key == "engine-identity") {
    const size_t tab = value.find('\t');
    engine->identity = value.substr(0, tab);
    if (tab != std::string_view::npos) engine->prefix = value.substr(tab + 1);
  } else if (key == "engine-afresh") {
    engine->afresh = value;
  } else if (key == "engine-toolchain") {
    engine->toolchain = value;
  } else if (key == "engine-search") {
    engine->search.emplace_back(value);
  }
}

void ParseLine(std::string_view key, std::string_view value, Config* config) {
  if (key == "accept") {
    config->target.accepted.emplace_back(value);
  } else if (key == "gencode") {
    config->target.gencode = value;
  } else if (key == "without-code") {
    config->target.without_code = value == "replace" ? WithoutCode::kReplace
                                  : value == "drop"  ? WithoutCode::kDrop
                                                     : WithoutCode::kKeep;
  } else if (key == "rule") {
    Rule rule = ParseRule(value);
    if (!rule.old.empty()) config->rules.push_back(std::move(rule));
  } else if (key == "tool") {
    AddPair(value, &config->tools);
  } else if (key == "map") {
    AddPair(value, &config->maps);
  } else if (key == "records") {
    config->records = value;
  } else if (key == "governor") {
    config->governor = value;
  } else if (key == "build") {
    config->build = value;
  } else if (key == "slots") {
    config->slots = std::atoi(std::string(value).c_str());
  } else if (key == "jobs") {
    config->jobs = std::atoi(std::string(value).c_str());
  } else {
    ParseEngineLine(key, value, &config->engine);
  }
}

}  // namespace

std::string Config::Tool(std::string_view name) const {
  for (const auto& [known, path] : tools) {
    if (known == name) return path;
  }
  return "";
}

Config ParseConfig(std::string_view text) {
  Config config;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const size_t blank = line.find(' ');
    if (blank != std::string_view::npos) {
      ParseLine(line.substr(0, blank), line.substr(blank + 1), &config);
    }
  }
  return config;
}

std::optional<Config> ReadConfig(const char* path) {
  const std::optional<std::string> text = ReadFile(path);
  if (!text) return std::nullopt;
  Config config = ParseConfig(*text);
  config.path = path;
  return config;
}

}  // namespace bk
