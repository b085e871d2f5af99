// A trainer for tests with real peers: runner SOCKET copy|view [MICROSECONDS]. Moves each of its parameters
// towards a target of its own, with a pause between steps, until it is asked to end (SIGTERM). Prints
// "attached" before its first step. Exit code 3: a parameter was not finite.
#define STARLING_CLIENT_IMPLEMENTATION
#include "starling_client.h"

#include <math.h>
#include <signal.h>
#include <time.h>

enum { kFloats = 20000 };

static volatile sig_atomic_t asked_to_end;

static void end(int number) {
  (void)number;
  asked_to_end = 1;
}

int main(int argc, char** argv) {
  static float w[kFloats];
  if (argc < 3) return 2;
  signal(SIGTERM, end);
  starling_tensor tensors[] = {{"w", STARLING_TRAINED, {kFloats}, 1, w}};
  starling_spec spec = STARLING_SPEC;
  spec.model = "target", spec.data = "none", spec.device = "C", spec.batch = 1;
  spec.tensors = tensors, spec.count = 1;
  spec.mode = strcmp(argv[2], "view") == 0 ? STARLING_VIEW : STARLING_COPY;
  starling_client* client;
  if (starling_attach(argv[1], &spec, &client) != 0) {
    fprintf(stderr, "runner: %s\n", starling_last_error(client));
    starling_detach(client);
    return 1;
  }
  puts("attached");
  fflush(stdout);
  const float target = (float)(getpid() % 100);
  const struct timespec pause = {0, (argc > 3 ? atol(argv[3]) : 1000) * 1000};
  while (!asked_to_end) {
    float* const x = tensors[0].data;
    double loss = 0;
    for (int i = 0; i < kFloats; ++i) {
      const float distance = x[i] - target;
      if (!isfinite(x[i])) return 3;
      loss += (double)distance * distance;
      x[i] -= 0.01f * distance;
    }
    nanosleep(&pause, NULL);
    starling_step(client, 1, loss / kFloats);
  }
  starling_detach(client);
  return 0;
}
