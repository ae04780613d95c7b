#include "record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace bk {
namespace {

// The length of the UTF-8 sequence at `text[i]`, or 0 if it is none. Source: RFC 3629, section 4.
size_t SequenceLength(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
  };
  const auto is_tail = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF && is_tail(1)) return 2;
  if (lead >= 0xE0 && lead <= 0xEF && is_tail(1) && is_tail(2)) {
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4 && is_tail(1) && is_tail(2) && is_tail(3)) {
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

std::string Number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", value);
  return text;
}

// `[[0.1,12],...]`: seconds and MiB.
std::string Points(const std::vector<std::pair<double, uint64_t>>& samples) {
  std::string json = "[";
  for (const auto& [seconds, bytes] : samples) {
    char point[48];
    std::snprintf(point, sizeof point, "%s[%.2f,%" PRIu64 "]", json.size() > 1 ? "," : "", seconds,
                  bytes >> 20);
    json += point;
  }
  return json + "]";
}

}  // namespace

std::string JsonString(std::string_view text) {
  std::string json = "\"";
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t length = SequenceLength(text, i);
    if (length == 0) {
      json += "\\ufffd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      json += escape;
    } else {
      json.append(text.substr(i, length));
    }
    i += length;
  }
  return json + "\"";
}

std::string FlagsDigest(const Args& args, const Call& call) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](std::string_view text) {
    for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xFFu) * 0x100000001b3u;
  };
  bool skips = false;
  for (const std::string& arg : args) {
    const bool is_value_of_path = skips;
    skips = arg == "-o" || arg == "-MF" || arg == "-MT" || arg == "-MQ";
    if (skips || is_value_of_path || arg == call.source) continue;
    if (arg.find('/') != std::string::npos) continue;
    add(arg);
  }
  char text[32];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

std::string RenderRecord(const Subject& subject, const Outcome& outcome) {
  std::string json = "{\"source\":" + JsonString(subject.call.source);
  json += ",\"output\":" + JsonString(subject.call.output);
  json += ",\"tool\":" + JsonString(subject.tool);
  json += ",\"decision\":" + JsonString(Name(subject.decision));
  json += ",\"start\":" + Number(outcome.start_seconds);
  json += ",\"wall_seconds\":" + Number(outcome.wall_seconds);
  json += ",\"cpu_seconds\":" + Number(outcome.cpu_seconds);
  json += ",\"peak_bytes\":" + std::to_string(outcome.peak_bytes);
  json += ",\"status\":" + std::to_string(outcome.status);
  json += ",\"stderr\":" + JsonString(outcome.status == 0 ? "" : outcome.stderr_tail);
  json += ",\"flags\":" + JsonString(subject.flags);
  json += ",\"waited_seconds\":" + Number(subject.waited_seconds);
  json += ",\"paused_seconds\":" + Number(outcome.paused_seconds);
  json += ",\"byte_seconds\":" + Number(outcome.byte_seconds);
  json += ",\"memory\":" + Points(outcome.samples);
  json += ",\"ended\":" + JsonString(Name(outcome.cut));
  json += ",\"attempt\":" + std::to_string(subject.attempt);
  json += ",\"objects\":" + JsonString(subject.objects);
  return json + "}\n";
}

void AppendRecord(const std::string& file, const std::string& record) {
  const int handle = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (handle < 0 || write(handle, record.data(), record.size()) < 0) {
    std::fprintf(stderr, "bk-launch: cannot write the record to %s: %s\n", file.c_str(),
                 std::strerror(errno));
  }
  if (handle >= 0) close(handle);
}

}  // namespace bk
