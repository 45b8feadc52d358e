// Tests from whom a watchdog accepts messages: nobody without the key of its job, and no address that no rank named.
#include "libtrain/comm/watchdog.h"
#include "tests/comm/played_rank.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::comm {
namespace {

using namespace std::chrono_literals;

// A process of another user, if this process may start one, that sends every kind of message.
void say_all_as_another_user(const Report& words, const sockaddr_in& to) {
  const auto child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(1);
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    auto said = words;
    for (const auto kind : {Report::state, Report::verdict, Report::farewell, Report::farewell_heard}) {
      said.kind = kind;
      for (said.rank = 0; said.rank < 2; ++said.rank) {
        send_sealed(socket, {}, said, "forged", to);
        std::string bare(reinterpret_cast<const char*>(&said), sizeof said);
        bare += "forged";
        sendto(socket, bare.data(), bare.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
      }
    }
    const std::string noise(2000, 'x');
    for (std::size_t size = 0; size < noise.size(); ++size)
      sendto(socket, noise.data(), size, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// A message without the key of the job is ignored, whatever it says, and so is one from an address that no rank named.
// A message with the key is obeyed; its text is shown without what a terminal would act on.
TEST(watchdog, a_stranger_is_not_heard) {
  const auto here = socket_of_this_test();
  std::mutex mutex;
  std::vector<std::string> sentences;
  const auto heard = [&] {
    const std::lock_guard lock(mutex);
    return sentences;
  };
  WatchdogOptions options{1, 2, 600, 0.05};
  options.on_hang = [&](const std::string& sentence, Decided) {
    const std::lock_guard lock(mutex);
    sentences.push_back(sentence);
  };
  for (std::size_t i = 0; i < options.key.size(); ++i) options.key[i] = static_cast<unsigned char>(7 * i + 1);
  testing::internal::CaptureStderr();
  {
    Watchdog dog(options, {});
    dog.start({here.second, dog.address()});
    Report words;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    recvfrom(here.first, &words, sizeof words, 0, reinterpret_cast<sockaddr*>(&from), &size);
    words.rank = 0;
    auto wrong = options.key;
    wrong[15] ^= 1;
    for (const auto kind : {Report::state, Report::verdict, Report::farewell, Report::farewell_heard}) {
      words.kind = kind;
      send_sealed(here.first, wrong, words, "forged", from);
      send_sealed(here.first, {}, words, "forged", from);
      std::string bare(reinterpret_cast<const char*>(&words), sizeof words);
      bare += "forged";
      sendto(here.first, bare.data(), bare.size(), 0, reinterpret_cast<sockaddr*>(&from), sizeof from);
    }
    say_all_as_another_user(words, from);
    words.kind = Report::verdict;
    const auto elsewhere = socket_of_this_test();
    send_sealed(elsewhere.first, options.key, words, "from nowhere", from);
    close(elsewhere.first);
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(heard().empty()) << heard()[0];
    send_sealed(here.first, options.key, words, "a \x1b[31mred\x1b[0m end", from);
    for (int i = 0; i < 60 && heard().empty(); ++i) std::this_thread::sleep_for(50ms);
  }
  const auto shown = testing::internal::GetCapturedStderr();
  ASSERT_EQ(heard().size(), 1u);
  for (const auto& text : {heard()[0], shown}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("red"), std::string::npos) << text;
  }
  close(here.first);
}

}  // namespace
}  // namespace trainyard::comm
