// Places for sources in a batch, which are filled again as targets end.
#include "tools/generate/pair_answers.h"

#include "libtrain/base/index.h"
#include "tools/generate/beam_search.h"
#include "tools/generate/shown_text.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace trainyard::generate {

namespace {

// A target that is being written.
class Target {
 public:
  virtual ~Target() = default;
  // The logits of each of its texts. Returns whether it goes on.
  virtual bool take(std::span<const std::span<const float>> logits) = 0;
  // The new token of each text, and which text of the turn before it goes on from.
  virtual std::vector<std::int32_t> tokens() const = 0;
  virtual std::vector<std::int64_t> from() const = 0;
  virtual PairAnswer answer() = 0;
};

class SampledTarget : public Target {
 public:
  SampledTarget(const PairSettings& settings, const data::Tokenizer& tokenizer, const PairRequest& request,
                std::int64_t tokens)
      : continuation_(with_seed(settings.sampler, request.seed), with_tokens(settings.continuation, tokens),
                      request.first),
        first_(std::ssize(request.first)),
        shown_(tokenizer, settings.stops, {}, {}, [this](std::string_view more) { answer_.text += more; }) {}

  bool take(std::span<const std::span<const float>> logits) override {
    const auto stopped = continuation_.take(logits.front(), [&](std::int32_t token, std::span<const float> of) {
      answer_.log_probabilities.push_back(log_probability(of, token));
      return shown_.push(token) ? Go::on : Go::stop_text;
    });
    if (stopped) answer_.stopped = *stopped;
    return !stopped;
  }
  std::vector<std::int32_t> tokens() const override { return {continuation_.tokens().back()}; }
  std::vector<std::int64_t> from() const override { return {0}; }
  PairAnswer answer() override {
    if (!shown_.finish()) answer_.stopped = Stopped::stop_text;
    answer_.tokens.assign(continuation_.tokens().begin() + first_, continuation_.tokens().end());
    return answer_;
  }

 private:
  static SamplerSettings with_seed(SamplerSettings sampler, std::uint64_t seed) {
    sampler.seed = seed;
    return sampler;
  }
  static ContinuationSettings with_tokens(ContinuationSettings settings, std::int64_t tokens) {
    settings.tokens = tokens;
    return settings;
  }
  PairAnswer answer_;
  Continuation continuation_;
  std::int64_t first_;
  ShownText shown_;
};

class SearchedTarget : public Target {
 public:
  SearchedTarget(const PairSettings& settings, const data::Tokenizer& tokenizer, std::int64_t tokens)
      : search_(beam_settings(settings, tokens)), tokenizer_(tokenizer), stops_(settings.stops) {}

  bool take(std::span<const std::span<const float>> logits) override { return search_.take(logits); }
  std::vector<std::int32_t> tokens() const override {
    std::vector<std::int32_t> out;
    for (const auto& text : search_.running()) out.push_back(text.tokens.back());
    return out;
  }
  std::vector<std::int64_t> from() const override { return search_.from(); }
  PairAnswer answer() override {
    const auto& best = search_.finished().front();
    PairAnswer out;
    ShownText shown(tokenizer_, stops_, {}, {}, [&](std::string_view more) { out.text += more; });
    for (const auto token : best.tokens) shown.push(token);
    shown.finish();
    out.tokens = best.tokens, out.log_probabilities = best.log_probabilities, out.score = best.score;
    out.stopped = best.ended ? Stopped::end_of_document : Stopped::length;
    return out;
  }

 private:
  static BeamSettings beam_settings(const PairSettings& s, std::int64_t tokens) {
    const auto& c = s.continuation;
    return {s.beams,       s.length_penalty, tokens, c.stop_at == StopAt::length ? std::vector<std::int32_t>() : c.ends,
            c.stop_tokens, c.vocabulary};
  }
  BeamSearch search_;
  const data::Tokenizer& tokenizer_;
  const std::vector<std::string>& stops_;
};

struct Place {
  std::int64_t number = -1;
  std::unique_ptr<Target> target;  // null: free
};

class Answers {
 public:
  Answers(PairModel& model, const data::Tokenizer& tokenizer, const PairSettings& settings,
          const std::function<bool(std::int64_t, const PairAnswer&)>& done)
      : model_(model), tokenizer_(tokenizer), settings_(settings), done_(done),
        places_(base::size(model.room().sources)) {}

  bool goes_on() const { return goes_on_; }
  bool has_place() const { return free_place() != places_.end(); }
  bool any() const {
    return std::any_of(places_.begin(), places_.end(), [](const Place& p) { return p.target != nullptr; });
  }

  void begin(const PairRequest& request) {
    const auto place = free_place();
    const auto source = place - places_.begin();
    const auto tokens = std::min(settings_.continuation.tokens, model_.target_room() - std::ssize(request.first) + 1);
    auto& of = places_[base::size(source)];
    of.number = begun_++;
    if (settings_.beams > 1) of.target = std::make_unique<SearchedTarget>(settings_, tokenizer_, tokens);
    else of.target = std::make_unique<SampledTarget>(settings_, tokenizer_, request, tokens);
    const auto logits = model_.begin(source, request.source, request.first);
    take(source, {&logits, 1});
  }

  // One token more of each text.
  void step() {
    std::vector<PairModel::Next> next;
    std::vector<std::pair<std::int64_t, std::size_t>> of;  // source, texts
    for (std::int64_t s = 0; s < std::ssize(places_); ++s) {
      const auto& target = base::at(places_, s).target;
      if (!target) continue;
      const auto tokens = target->tokens();
      for (std::int64_t t = 0; t < std::ssize(tokens); ++t) next.push_back({s, t, base::at(tokens, t)});
      of.emplace_back(s, tokens.size());
    }
    const auto logits = model_.append(next);
    std::size_t first = 0;
    for (const auto& [source, texts] : of) {
      take(source, std::span(logits).subspan(first, texts));
      first += texts;
    }
  }

 private:
  std::vector<Place>::const_iterator free_place() const {
    return std::find_if(places_.begin(), places_.end(), [](const Place& p) { return p.target == nullptr; });
  }

  void take(std::int64_t source, std::span<const std::span<const float>> logits) {
    auto& place = base::at(places_, source);
    if (place.target->take(logits)) return model_.reorder(source, place.target->from());
    answers_[place.number] = place.target->answer();
    place.target.reset();
    for (auto first = answers_.begin(); goes_on_ && first != answers_.end() && first->first == given_;
         first = answers_.begin()) {
      goes_on_ = done_(given_++, first->second);
      answers_.erase(first);
    }
  }

  PairModel& model_;
  const data::Tokenizer& tokenizer_;
  const PairSettings& settings_;
  const std::function<bool(std::int64_t, const PairAnswer&)>& done_;
  std::vector<Place> places_;
  std::map<std::int64_t, PairAnswer> answers_;  // that wait for earlier ones
  std::int64_t begun_ = 0, given_ = 0;
  bool goes_on_ = true;
};

}  // namespace

void answer_requests(PairModel& model, const data::Tokenizer& tokenizer, const PairSettings& settings,
                     const std::function<std::optional<PairRequest>()>& next,
                     const std::function<bool(std::int64_t number, const PairAnswer& answer)>& done) {
  Answers answers(model, tokenizer, settings, done);
  bool more = true;
  while (answers.goes_on()) {
    while (more && answers.goes_on() && answers.has_place()) {
      const auto request = next();
      if (request) answers.begin(*request);
      else more = false;
    }
    if (!answers.any()) return;
    if (answers.goes_on()) answers.step();
  }
}

}  // namespace trainyard::generate
