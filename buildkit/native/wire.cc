#include "wire.h"

#include <cstdio>

namespace bk {

Order ParseOrder(std::string_view line) {
  if (line == "start") return Order::kStart;
  if (line == "pause") return Order::kPause;
  if (line == "continue") return Order::kContinue;
  if (line == "kill") return Order::kKill;
  if (line == "toobig") return Order::kTooBig;
  if (line == "giveup") return Order::kGiveUp;
  return Order::kNone;
}

std::string Escape(std::string_view text) {
  std::string word;
  for (const char c : text) {
    if (c == '%' || static_cast<unsigned char>(c) < 0x20) {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
      word += code;
    } else {
      word += c;
    }
  }
  return word;
}

std::string RenderAsk(std::string_view build, const Call& call, std::string_view flags,
                      int passes) {
  const char* language = call.source.empty()                ? "link"
                         : call.language == Language::kCuda ? "cuda"
                                                            : "c++";
  return "ask\t" + Escape(build) + '\t' + Escape(call.source) + '\t' + Escape(call.output) + '\t' +
         Escape(flags) + '\t' + language + '\t' + std::to_string(passes);
}

}  // namespace bk
