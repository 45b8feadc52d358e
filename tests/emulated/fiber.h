// Fibers: stacks between which one host thread switches. swapcontext() makes system calls for the signal mask at each
// switch, which takes half of an emulated kernel's time. So where possible a switch is eight instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRAINYARD_PLAIN_FIBERS  // sanitizers know swapcontext()
#endif
#endif
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRAINYARD_PLAIN_FIBERS
#endif

#ifdef TRAINYARD_PLAIN_FIBERS
#include <ucontext.h>
#endif

// For functions that a fiber enters and never leaves. The thread sanitizer notes every entry on a stack of its own,
// which would overflow after some ten thousand fibers.
#if defined(__clang__)
#define TRAINYARD_NEVER_LEFT __attribute__((disable_sanitizer_instrumentation))
#else
#define TRAINYARD_NEVER_LEFT
#endif

namespace emulator {

#ifdef TRAINYARD_PLAIN_FIBERS
struct Context {
  ucontext_t context;
  void begin(char* stack, std::size_t bytes, void (*enter)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack, context.uc_stack.ss_size = bytes, context.uc_link = nullptr;
    makecontext(&context, enter, 0);
  }
};
TRAINYARD_NEVER_LEFT inline void change(Context& from, Context& to) { swapcontext(&from.context, &to.context); }
#else
struct Context {
  void* top = nullptr;  // of the stack, which holds the saved registers and the return address
  void begin(char* stack, std::size_t bytes, void (*enter)()) {
    auto* const end = reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uintptr_t>(stack + bytes) / 16 * 16);
    for (int i = 1; i <= 8; ++i) end[-i] = 0;
    end[-2] = reinterpret_cast<std::uint64_t>(enter);  // it never returns, and finds the stack as a call leaves it
    top = end - 8;
  }
};
// System V ABI: rdi and rsi are the arguments.
__attribute__((naked, noinline)) inline void change_stack(void** /*from*/, void* /*to*/) {
  asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}
inline void change(Context& from, Context& to) { change_stack(&from.top, to.top); }
#endif

}  // namespace emulator
