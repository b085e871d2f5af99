#include "node/trainer_news.h"

#include <fmt/format.h>

#include "gossip/members/membership.h"
#include "node/front/status_json.h"

namespace starling::node {

TrainerNews::TrainerNews(Listening& listening, const Lives& lives, const Teller& teller)
    : attachment_(listening.attachment()), lives_(lives), teller_(teller) {
  if (attachment_ != nullptr)
    attachment_->answer_with(
        {.events = [this] { return living(); }, .members = [this] { return members(); }});
}

TrainerNews::~TrainerNews() {
  if (attachment_ != nullptr) attachment_->answer_with({});
}

void TrainerNews::tell(const gossip::Notice& notice, const std::string& told) {
  using What = gossip::Notice::What;
  if (attachment_ == nullptr) return;
  const bool waits = notice.what == What::waiting || notice.what == What::assembling;
  if (waits && !told.empty()) attachment_->say(told);
  if (!attachment_->wants_events()) return;
  if (notice.what == What::joined || notice.what == What::recovered) {
    if (live_.insert(notice.peer).second) attachment_->tell("joined " + name_of(notice.peer));
  } else if (notice.what == What::failed || notice.what == What::left) {
    if (live_.erase(notice.peer) == 0) return;
    attachment_->tell(
        fmt::format("lost {} {}", name_of(notice.peer), notice.what == What::left ? "left" : "failed"));
  }
}

void TrainerNews::exchanged(PeerId with) {
  if (!lives_.equipped || attachment_ == nullptr) return;
  const std::uint64_t mixes = lives_.equipped->mixer->mixes();
  if (mixes > mixes_) attachment_->tell("mixed " + name_of(with));
  mixes_ = mixes;
}

std::vector<std::string> TrainerNews::living() {
  std::vector<std::string> lines;
  live_.clear();
  if (lives_.running) {
    for (const gossip::Record& record : lives_.running->core.view().membership.others()) {
      if (!record.is_live()) continue;
      live_.insert(record.member.id);
      lines.push_back("event joined " + record.member.name);
    }
  }
  lines.insert(lines.begin(), fmt::format("event members {}", lines.size()));
  return lines;
}

std::vector<std::string> TrainerNews::members() const {
  std::vector<std::string> lines;
  if (lives_.running) {
    const auto table = json_of(teller_.members());
    for (const auto& member : table) lines.push_back("member " + training::to_text(member));
  }
  lines.push_back(fmt::format("members {}", lines.size()));
  return lines;
}

std::string TrainerNews::name_of(PeerId member) const {
  const gossip::Record* const record = lives_.running->core.view().membership.find(member);
  return record == nullptr || record->member.name.empty() ? to_string(member) : record->member.name;
}

}  // namespace starling::node
