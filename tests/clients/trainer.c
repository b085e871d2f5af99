// A trainer for tests of the C client. Reads commands, a line each, and answers each with a line:
//   attach PATH copy|view   ok, or the error
//   step N                  N steps that add 1 to w[0] and count 4 samples; 1, or 0 if the run is over
//   until                   such steps until the peer is attached; their number
//   add K X                 adds X to w[K]
//   values                  w[0] w[1] w[2] b f[0]
//   state                   samples epochs exchanges members rate_factor eras attached done index of
//   events                  the events since the last time, "KIND NAME TEXT;" each
//   report A R              accuracy and learning rate
//   cost N                  nanoseconds of processor time of a step
//   fork                    makes steps and detaches in a child
//   detach                  values at the end
#define STARLING_CLIENT_IMPLEMENTATION
#include "starling_client.h"

#include <sys/wait.h>

static float w[3] = {1, 2, 3}, b = 4, f[1] = {5};
static starling_tensor tensors[] = {{"w", STARLING_TRAINED, {3}, 1, w},
                                    {"b", STARLING_RUNNING, {0}, 0, &b},
                                    {"f", STARLING_FROZEN, {1, 1}, 2, f}};
static starling_client* client;

static void attach(const char* path, const char* mode) {
  starling_spec spec = STARLING_SPEC;
  spec.model = "tiny", spec.data = "none", spec.device = "C11 cpu", spec.epoch = 1000, spec.batch = 4;
  spec.tensors = tensors, spec.count = 3;
  spec.events = 1;
  spec.mode = strcmp(mode, "view") == 0 ? STARLING_VIEW : STARLING_COPY;
  const int failed = starling_attach(path, &spec, &client) != 0;
  puts(failed ? starling_last_error(client) : "ok");
  if (!failed) return;
  starling_detach(client);
  client = NULL;
}

static int steps(long count) {
  int more = 1;
  for (long i = 0; i < count; ++i) {
    tensors[0].data[0] += 1;
    more = starling_step(client, 4, 0.5);
  }
  return more;
}

static void values(void) {
  const float* x = tensors[0].data;
  printf("%g %g %g %g %g\n", (double)x[0], (double)x[1], (double)x[2], (double)*tensors[1].data,
         (double)*tensors[2].data);
}

static starling_state get_state(void) {
  starling_state s;
  s.size = sizeof s;
  starling_progress(client, &s);
  return s;
}

static void state(void) {
  const starling_state s = get_state();
  uint32_t index, of;
  starling_share(client, &index, &of);
  printf("%llu %g %llu %u %g %llu %d %d %u %u\n", (unsigned long long)s.samples, s.epochs,
         (unsigned long long)s.exchanges, s.members, s.rate_factor, (unsigned long long)s.eras, s.attached,
         s.done, index, of);
}

static void events(void) {
  starling_event e;
  while (starling_next_event(client, &e)) printf("%s %s %s;", e.kind, e.name, e.text);
  puts("");
}

static void until_attached(void) {
  long made = 0;
  for (; !get_state().attached; ++made) steps(1);
  printf("%ld\n", made);
}

// Processor time of this thread, in seconds.
static double processor_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void cost(long count) {
  double best = 1;
  for (int series = 0; series < 5; ++series) {
    const double begin = processor_time();
    for (long i = 0; i < count; ++i) starling_step(client, 4, 0.5);
    const double seconds = (processor_time() - begin) / (double)count;
    if (seconds < best) best = seconds;
  }
  printf("%.0f\n", best * 1e9);
}

static void fork_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 10; ++i) starling_step(client, 4, 0.5);
    starling_detach(client);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  puts("ok");
}

static void run(const char* command, const char* first, const char* second) {
  const double x = strtod(second, NULL);
  const long n = strtol(first, NULL, 10);
  if (strcmp(command, "attach") == 0) attach(first, second);
  if (strcmp(command, "step") == 0) printf("%d\n", steps(n));
  if (strcmp(command, "until") == 0) until_attached();
  if (strcmp(command, "add") == 0) printf("%g\n", (double)(tensors[0].data[n] += (float)x));
  if (strcmp(command, "values") == 0) values();
  if (strcmp(command, "state") == 0) state();
  if (strcmp(command, "events") == 0) events();
  if (strcmp(command, "cost") == 0) cost(n);
  if (strcmp(command, "fork") == 0) fork_child();
  if (strcmp(command, "report") == 0) {
    starling_report_accuracy(client, strtod(first, NULL));
    starling_report_rate(client, x);
    puts("ok");
  }
  if (strcmp(command, "detach") == 0) {
    starling_detach(client);
    client = NULL;
    values();
  }
}

int main(void) {
  char line[512], command[16], first[256], second[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    first[0] = second[0] = '\0';
    if (sscanf(line, "%15s %255s %63s", command, first, second) < 1) continue;
    run(command, first, second);
    fflush(stdout);
  }
  starling_detach(client);
  return 0;
}
