// Parses the command line, and catches what nothing else caught.
#include "tools/common/program.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/json.h"
#include "libtrain/base/last_resort.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "tools/common/foreign_files.h"
#include "tools/common/foreign_words.h"
#include "tools/common/help_format.h"
#include "tools/common/reference.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace trainyard::tools {

void describe_program(CLI::App& app, const std::string& sentence, const std::string& examples,
                      const std::string& see_also) {
  app.description(sentence);
  app.footer("Examples:\n" + examples + "\nSee also: " + see_also);
  app.set_version_flag("--version", "trainyard 0.1.0");
  app.formatter(std::make_shared<HelpFormat>());
}

namespace {

// Throws for a failed write to stdout. A reader that went away (EPIPE) is no error.
void judge_output(int error) {
  std::clearerr(stdout);
  if (error != EPIPE)
    throw base::EnvironmentError(fmt::format("standard output cannot be written: {}", std::strerror(error)),
                                 "make room where it goes");
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) judge_output(errno != 0 ? errno : EIO);
}

[[noreturn]] void refuse_empty(const std::string& flag, const CLI::Option& option) {
  throw CLI::ValidationError(flag + " is empty: is a variable unset?" +
                             (option.get_required() ? "" : " Give a value, or leave it out"));
}

// Calls `visit` for each word that begins with '-' and is not the value of a flag, with the part before '='. It returns
// the option of this name, or nullptr. The next word follows in memory; it is nullptr at the end.
using FlagVisit = std::function<const CLI::Option*(char** word, const std::string& name)>;
void each_flag(int argc, char** argv, const FlagVisit& visit) {
  int values = 0;  // words that are values of the previous flag
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (values-- > 0) continue;
    if (word == "--") return;
    const auto equals = word.find('=');
    const auto* option = word.starts_with('-') ? visit(argv + i, word.substr(0, equals)) : nullptr;
    values = option != nullptr && equals == std::string::npos ? option->get_items_expected_min() : 0;
  }
}

// Writes hyphens for underscores in the names of flags that there are: --global_batch is --global-batch. The words
// change in place, so that whoever shows the command shows names as they are.
void accept_underscores(const CLI::App& app, int argc, char** argv) {
  each_flag(argc, argv, [&](char** word, std::string name) {
    if (name.starts_with("--") && app.get_option_no_throw(name) == nullptr)
      std::replace(name.begin(), name.end(), '_', '-');
    const auto* option = app.get_option_no_throw(name);
    if (option != nullptr) std::copy(name.begin(), name.end(), *word);
    return option;
  });
}

// Refuses what CLI11 passes over in silence: `--flag=` without a value, which it takes for the flag alone, and `1,,2`
// as the value of a flag that takes a list.
void refuse_empty_assignments(const CLI::App& app, int argc, char** argv) {
  each_flag(argc, argv, [&](char** word, const std::string& name) {
    const auto* option = app.get_option_no_throw(name);
    if (option == nullptr) return option;
    const std::string_view whole = *word;
    if (name + "=" == whole) refuse_empty(name, *option);
    const bool assigned = whole.size() > name.size();
    if (const char comma = option->get_delimiter(); comma != 0 && (assigned || word[1] != nullptr)) {
      const std::string list(assigned ? whole.substr(name.size() + 1) : word[1]);
      if (!list.empty() && (comma + list + comma).find(std::string(2, comma)) != list.npos)
        throw CLI::ValidationError(fmt::format("{}: a value in the list {} is empty", name, base::excerpt(list)));
    }
    return option;
  });
}

void refuse_empty_values(const CLI::App& app) {
  for (const auto* option : app.get_options()) {
    if (option->get_items_expected_max() == 0 || option->get_name().empty()) continue;  // a switch
    const auto& values = option->results();
    if (std::find(values.begin(), values.end(), std::string()) != values.end())
      refuse_empty(option->get_name(), *option);
  }
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}

std::string name_of(const std::string& word) { return word.substr(0, word.find('=')); }

// The unparsed words: flags that are not known, or words that belong to no flag.
enum class LeftOver { flags, values };
std::vector<std::string> left_over(const CLI::App& app, LeftOver which) {
  auto left = app.remaining();
  std::erase_if(left, [&](const std::string& word) { return is_flag(word) != (which == LeftOver::flags); });
  return left;
}

// A message about a one-value flag that was given several times; empty if there is none.
std::string given_again(const CLI::App& app) {
  for (const auto* option : app.get_options())
    if (option->get_items_expected_max() == 1 && option->results().size() > 1 && !option->get_positional() &&
        option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw)
      return fmt::format("{} is given {} times: {}", option->get_name(), option->results().size(),
                         fmt::join(option->results(), ", "));
  return {};
}

// The help text of the flag that a message of CLI11 begins with ("--ranks: ..."), or of a required flag that is empty;
// empty if there is none.
std::string about_the_flag_of(const CLI::App& app, const std::string& message) {
  for (const auto* option : app.get_options())
    if (message.starts_with(option->get_name() + ": ") ||
        (option->get_required() && message.starts_with(option->get_name() + " is empty")))
      return fmt::format("{}: {}", option->get_name(), option->get_description());
  return {};
}

// What is known of flags that do not exist; `between` stands between a flag and its hint. One flag alone, with nothing
// between, is not named.
std::string hint_for_unknown(const CLI::App& app, const std::vector<std::string>& unknown, std::string_view between) {
  constexpr std::size_t most = 8;
  std::vector<std::string> flags, hints;
  for (const auto* option : app.get_options())  // old and short spellings are not suggested
    if (!option->get_group().empty() && !option->get_lnames().empty()) flags.push_back(option->get_lnames().front());
  for (const auto& word : unknown) {
    const auto hint = foreign_word_hint(word, flags, Spelling::flags);
    if (hint.empty() || hints.size() == most) continue;
    hints.push_back(between.empty() ? hint : name_of(word) + std::string(between) + hint);
  }
  return fmt::format("{}", fmt::join(hints, "\n       "));
}

std::string not_known(const std::vector<std::string>& unknown) {
  if (unknown.size() == 1) return fmt::format("{} is not known", name_of(unknown.front()));
  std::vector<std::string> names;
  for (const auto& word : unknown) names.push_back(name_of(word));
  return fmt::format("{} flags are not known: {}", names.size(), fmt::join(names, ", "));
}

std::string shell_word(const std::string& word) {
  return word.find_first_of(" \t*?$&;|<>()") == std::string::npos ? word : "'" + word + "'";
}

// The command with the flags that it cannot do without. The first that is missing has the words that stand alone.
std::string needed_command(const CLI::App& app, std::vector<std::string> alone, std::size_t words) {
  auto command = app.get_name();
  const bool has_more = words > alone.size();
  for (const auto* option : app.get_options()) {
    if (!option->get_required() || (option->count() > 0 && !option->get_positional())) continue;
    if (!option->get_positional()) command += " " + option->get_name();
    auto values = option->results();
    if (values.empty()) {
      const auto most = static_cast<std::size_t>(std::max(1, option->get_items_expected_max()));
      const auto end = alone.begin() + static_cast<std::ptrdiff_t>(std::min(most, alone.size()));
      values.assign(alone.begin(), end);
      alone.erase(alone.begin(), end);
    }
    if (values.empty())
      command += " " + (option->get_positional() ? option->get_single_name() : option->get_type_name());
    for (const auto& value : values) command += " " + shell_word(value);
  }
  return command + (has_more ? " ..." : "");
}

// What may be meant by a word that belongs to no flag. `words` are those of the command.
std::string hint_for_alone(const CLI::App& app, const std::string& word, const std::vector<std::string>& words) {
  const auto here = std::find(words.begin(), words.end(), word);
  const auto flag = std::find_if(std::make_reverse_iterator(here), words.rend(), is_flag);
  const auto* option = flag == words.rend() ? nullptr : app.get_option_no_throw(name_of(*flag));
  if (option != nullptr && option->get_items_expected_max() == 0)
    return fmt::format("{} takes no value", option->get_name());
  const auto end = std::find_if(here, words.end(), is_flag);
  const auto values = option == nullptr ? 0 : std::distance(flag.base(), end) + (flag->find('=') == flag->npos ? 0 : 1);
  if (values > 1)
    return fmt::format("{} takes one value, and {} follow it: has the shell replaced a pattern by names? {}: {}",
                       option->get_name(), values, option->get_name(), option->get_description());
  const bool has_config = app.get_option_no_throw("--config") != nullptr;
  if (has_config && word.ends_with(".toml")) return fmt::format("settings of a file: --config {}", shell_word(word));
  return "each value stands behind its flag";
}

// One sentence for a mistake in the command line, and a hint: what was probably meant, where that can be found out.
base::UsageError usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const auto unknown = left_over(app, LeftOver::flags), alone = left_over(app, LeftOver::values);
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  auto hint = hint_for_unknown(app, unknown, !is_extra ? " is not known: " : unknown.size() == 1 ? "" : ": ");
  std::string message = error.what();
  if (is_extra && !unknown.empty()) {
    message = not_known(unknown);
  } else if (is_extra && !alone.empty()) {
    message = fmt::format("'{}' was not expected", alone.front());
    hint = hint_for_alone(app, alone.front(), words);
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && hint.empty()) {
    hint = needed_command(app, alone, words.size());
  } else if (const auto again = given_again(app); !again.empty()) {
    message = again, hint = "leave all but one out";
  } else if (const auto about = about_the_flag_of(app, message); hint.empty() && !about.empty()) {
    hint = about;
  }
  const auto way = fmt::format("{} --help", app.get_name());
  return base::UsageError(message, hint.empty() ? way : fmt::format("{} ({})", hint, way));
}

// Shortens long lines: user input may be of any length, a message about it should not.
std::string bounded(const std::string& text) {
  constexpr std::size_t longest = 1500;
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!out.empty()) out += '\n';
    auto keep = std::min(line.size(), longest);
    while (keep < line.size() && keep > 0 && (static_cast<unsigned char>(line[keep]) & 0xc0) == 0x80) --keep;
    out += line.substr(0, keep);
    if (keep < line.size()) out += fmt::format("... ({} bytes)", line.size());
  }
  return out;
}

}  // namespace

bool print(std::string_view given) {
  const auto shown = isatty(STDOUT_FILENO) != 0 ? base::printable(given) : std::string();
  const auto text = shown.empty() ? given : std::string_view(shown);
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return true;
  judge_output(errno);
  return false;
}

int report(const std::string& program, const std::exception& error) {
  std::fflush(stdout);
  const auto text = base::error_text_of(error);
  std::fprintf(stderr, "%s: %s\n", program.c_str(), base::printable(bounded(text.message)).c_str());
  if (!text.hint.empty()) std::fprintf(stderr, "  try: %s\n", base::printable(bounded(text.hint)).c_str());
  return static_cast<int>(text.code);
}

namespace {

// The parent may have closed standard input, output or error. Then the next opened file would take that descriptor, and
// messages would go into it. So /dev/null is opened in their place, in a mode in which reading or writing fails as on a
// closed descriptor. Only standard error is opened for writing: its messages are lost.
void keep_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
}

// Raises the limit of open files, which is usually 1024 for programs that use select(2). A data set may have thousands
// of shards, and a checkpoint a file for each rank. A limit above the cap would only cost time in programs that close
// all descriptors before they start a child.
void raise_the_limit_of_open_files() {
  constexpr rlim_t cap = 65536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, cap)) return;
  limit.rlim_cur = std::min(limit.rlim_max, cap);
  setrlimit(RLIMIT_NOFILE, &limit);  // if refused, the limit stays as it was
}

// Runs before anything allocates: libraries allocate while they are initialized, before main.
#if defined(__ELF__) && !defined(TRAINYARD_SANITIZED)
__attribute__((section(".preinit_array"), used)) void (*const prepare_first)() = base::prepare_last_resort;
#endif

bool cores_are_contended() {
  constexpr std::string_view before = "some avg10=";
  char text[64] = {};
  const int file = ::open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const auto n = ::read(file, text, sizeof text - 1);
  ::close(file);
  return n > static_cast<ssize_t>(before.size()) && std::string_view(text).starts_with(before) &&
         std::atof(text + before.size()) >= 50;
}

// OpenMP threads that wait for one another spin for some tens of microseconds, then sleep. libgomp spins a hundred
// times longer by default. On a busy machine that takes cores from the threads that are waited for. libgomp's own
// variables override this setting. It must run before libgomp is initialized, so libgomp is linked into the program
// (CMakeLists.txt).
// Where other programs compete for the cores already, every poll is too many: then threads sleep at once.
bool contended = false;
__attribute__((constructor(101))) void bound_polling() {
  contended = cores_are_contended();
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr)
    setenv("GOMP_SPINCOUNT", contended ? "0" : "5000", 0);
}

// Before main: the help of settings names others, and programs make it before they call guarded().
__attribute__((constructor)) void word_messages() {
  base::spell_settings(flag_of);
  advise_on_other_tools();
}

int parse_and_run(CLI::App& app, int argc, char** argv, const std::function<base::ExitCode()>& body,
                  const OnRanks& on_ranks) {
  const auto show = [&](const char* flag, const std::string& text) {
    if (on_ranks.show) return on_ranks.show(flag, text);
    print(text);
    return static_cast<int>(base::ExitCode::done);
  };
  try {
    base::configure_log(app.get_name(), 0, base::LogLevel::info);
    try {
      if (argc == 3 && std::string_view(argv[1]) == "--reference") {
        print(reference_of(app, argv[2]));
        return static_cast<int>(base::ExitCode::done);
      }
      accept_underscores(app, argc, argv);
      refuse_empty_assignments(app, argc, argv);
      app.parse(argc, argv);
      refuse_empty_values(app);
    } catch (const CLI::CallForHelp&) {
      return show("help", app.help());
    } catch (const CLI::CallForVersion& e) {
      print(std::string(e.what()) + "\n");  // a script may ask for it on one rank, before the program is run
      return static_cast<int>(base::ExitCode::done);
    } catch (const CLI::ParseError& e) {
      const auto error = usage_error(app, e, {argv + 1, argv + argc});
      return on_ranks.refuse ? on_ranks.refuse(error) : report(app.get_name(), error);
    }
    const auto code = body();
    std::cout.flush();
    if (code == base::ExitCode::done) flush_output();  // otherwise the error matters more
    return static_cast<int>(code);
  } catch (const std::exception& e) {
    return report(app.get_name(), e);
  }
}

}  // namespace

std::string flag_of(std::string_view setting) { return "--" + std::string(setting); }

int guarded(CLI::App& app, int argc, char** argv, const std::function<base::ExitCode()>& body,
            const OnRanks& on_ranks) {
  base::prepare_last_resort();
  base::begin_main();
  keep_standard_descriptors();
  raise_the_limit_of_open_files();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is reported like a full disk
  const int code = parse_and_run(app, argc, argv, body, on_ranks);
  base::settle_exit_code(code);
  return code;
}

bool cores_were_contended() { return contended; }

}  // namespace trainyard::tools
