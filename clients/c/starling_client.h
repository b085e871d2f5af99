// Train as a peer of a Starling swarm, from C11 or C++17 on Linux: a client of `starling peer --trainer
// SOCKET`.
//
// In one source file, before other headers:
//
//     #define STARLING_CLIENT_IMPLEMENTATION
//     #include "starling_client.h"
//
// and in the program (examples/linear.c):
//
//     starling_tensor tensors[] = {{"w", STARLING_TRAINED, {10}, 1, w}};
//     starling_spec spec = STARLING_SPEC;
//     spec.tensors = tensors, spec.count = 1;
//     starling_client *client;
//     if (starling_attach("/run/user/1000/trainer", &spec, &client) != 0) fail(starling_last_error(client));
//     do loss = make_step(); while (starling_step(client, batch, loss));
//     starling_detach(client);
//
// docs/TRAINERS.md is the contract. A client belongs to one thread and to the process that attached it; in a
// forked child its functions do nothing. There is no global state. Warnings go to stderr.
#ifndef STARLING_CLIENT_H
#define STARLING_CLIENT_H

#if defined(STARLING_CLIENT_IMPLEMENTATION) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE  // for poll, clock_gettime, CMSG_SPACE
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STARLING_DIMS_MAX = 8 };
enum { STARLING_COPY, STARLING_VIEW };                         // mode
enum { STARLING_TRAINED, STARLING_RUNNING, STARLING_FROZEN };  // role

// A frozen tensor is kept: the trainer's values stay, and only those that join take them.
// `data` has the product of shape[0] to shape[dims - 1] floats; dims is 0 for a scalar. In view mode the
// client points `data` at shared memory, whose values exchanges change during steps, and may change the
// pointer in any step; detaching restores the pointer and writes the last values there.
typedef struct {
  const char* name;
  int role;
  int64_t shape[STARLING_DIMS_MAX];
  int dims;
  float* data;
} starling_tensor;

// What a trainer declares. Null pointers and zeros have the contract's defaults. `tensors` must outlive the
// client.
typedef struct {
  size_t size;  // sizeof(starling_spec)
  int mode;
  int quiet;   // 1: print no warnings
  int events;  // 1: keep what starling_next_event() returns
  const char *model, *data, *device;
  uint64_t epoch, batch;  // samples
  starling_tensor* tensors;
  size_t count;
} starling_spec;

#define STARLING_SPEC \
  { sizeof(starling_spec), STARLING_COPY, 0, 0, NULL, NULL, NULL, 0, 0, NULL, 0 }

// What happens in the swarm: `joined` NAME, `lost` NAME and `left` or `failed`, `mixed` NAME (an exchange
// with it was mixed into the peer's parameters), `missed` with the number of events that were dropped, or
// `members` with the number of `joined` that follow: the members that lived when the client attached.
typedef struct {
  char kind[16], name[72], text[24];
} starling_event;

typedef struct {
  size_t size;         // sizeof(starling_state); set before the call
  uint64_t samples;    // of all peers that ever took part
  double epochs;       // the same in epochs; 0 if the spec has none
  uint64_t exchanges;  // of this peer
  uint32_t members;    // that live
  double rate_factor;  // for the learning rate
  uint64_t eras;       // replacements of the replica: when it changes, begin with fresh optimizer state
  int attached;        // 0: trains alone until the peer returns
  int done;            // 1: the run is over
} starling_state;

typedef struct starling_client starling_client;

// Attaches to the peer that listens at `path`; returns 0 when training may begin, with the swarm's values in
// the tensors. Otherwise returns -1: starling_last_error(*client) is one sentence, and starling_detach frees
// *client.
int starling_attach(const char* path, const starling_spec* spec, starling_client** client);

// Does everything after a step with this many samples; `loss` may be NAN. Returns 1, or 0 when the run is
// over. Waits only if the swarm's rule, or a pause, requires it; a signal whose handler returns ends that
// wait. Never fails: without its peer the trainer trains alone, and attaches again once the peer is back.
int starling_step(starling_client* client, uint64_t samples, double loss);

void starling_progress(const starling_client* client, starling_state* state);

// The oldest event that was not returned yet. Returns 1, or 0 if there is none. Steps receive events; the
// latest 64 are kept. REQUIRES: spec.events.
int starling_next_event(starling_client* client, starling_event* event);

// This peer's place among those that train, to divide data among them.
void starling_share(const starling_client* client, uint32_t* index, uint32_t* of);

void starling_report_accuracy(starling_client* client,
                              double accuracy);  // 0 to 1, on the trainer's test data
void starling_report_rate(starling_client* client, double learning_rate);

// Posts the last steps, leaves the swarm, takes its last parameters and frees the client. Waits 11 s at most.
void starling_detach(starling_client* client);

// The sentence of the last failure, or "".
const char* starling_last_error(const starling_client* client);

#ifdef __cplusplus
}
#endif
#endif  // STARLING_CLIENT_H

#ifdef STARLING_CLIENT_IMPLEMENTATION
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {  // offsets of words, in bytes
  STARLING__ALLOWED = 1024,
  STARLING__RING_AT = 1032,
  STARLING__REPLY = 1040,
  STARLING__ERA = 1048,
  STARLING__WAITS = 1056,
  STARLING__RATE_FACTOR = 1064,
  STARLING__SWARM_SAMPLES = 1072,
  STARLING__EXCHANGES = 1080,
  STARLING__MEMBERS = 1088,
  STARLING__SHARE_INDEX = 1092,
  STARLING__SHARE_OF = 1096,
  STARLING__STEPS = 2048,
  STARLING__SAMPLES = 2056,
  STARLING__LOSS = 2064,
  STARLING__ACCURACY = 2072,
  STARLING__ACCURACY_STEPS = 2080,
  STARLING__RATE = 2088,
  STARLING__POST = 2096,
  STARLING__POST_STEPS = 2104,
  STARLING__POST_SAMPLES = 2112,
  STARLING__POST_ERA = 2120,
  STARLING__HEAD = 4096
};
enum { STARLING__LINE_MAX = 4096, STARLING__NAME_MAX = 200, STARLING__EVENTS_MAX = 64 };
enum {
  STARLING__ALONE,
  STARLING__DECLARED,
  STARLING__READY,
  STARLING__STARTED,
  STARLING__OVER,
  STARLING__REFUSED
};

// A ring of the events that were received.
typedef struct {
  unsigned long first, count, missed;
  starling_event kept[STARLING__EVENTS_MAX];
} starling__events;

typedef struct {
  unsigned char* memory;  // null: none
  size_t bytes;
  uint64_t floats, arena, post, reply;  // the last three: offsets in bytes
} starling__region;

// With all its peers, and without one. `others`: the samples of the other members.
typedef struct {
  uint64_t steps, samples, others;
  double began;
} starling__made;

struct starling_client {
  starling_spec spec;
  struct sockaddr_un address;
  pid_t owner;
  int socket, descriptor;  // -1: none
  int state, was_started;
  starling__region region, next;  // next: until `start`
  uint64_t* offsets;              // of each tensor in the arena, in floats
  float** own;                    // view mode: the trainer's pointers
  uint64_t steps, samples, posted_steps, post, era, rung, eras;
  double rate;  // learning rate, NAN if unknown
  int has_rung, pending;
  starling__made made;
  int refused;  // since the last start
  double next_try;
  unsigned long said;  // a bit for each reason
  char* unsent;        // allocated
  size_t unsent_size, unsent_at, in_size;
  char in[2 * STARLING__LINE_MAX];
  starling__events events;
  char text[STARLING__LINE_MAX + 1];  // of `refused` or `over`
  char error[STARLING__LINE_MAX + 256];
};

static double starling__now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t starling__get(const starling__region* r, int at) {
  return __atomic_load_n((const uint64_t*)(const void*)(r->memory + at), __ATOMIC_ACQUIRE);
}
static void starling__set(const starling__region* r, int at, uint64_t value) {
  __atomic_store_n((uint64_t*)(void*)(r->memory + at), value, __ATOMIC_RELEASE);
}
static double starling__get_real(const starling__region* r, int at) {
  const uint64_t bits = starling__get(r, at);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static void starling__set_real(const starling__region* r, int at, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  starling__set(r, at, bits);
}
static uint32_t starling__get_half(const starling__region* r, int at) {
  return __atomic_load_n((const uint32_t*)(const void*)(r->memory + at), __ATOMIC_ACQUIRE);
}

static int starling__fail(starling_client* c, const char* format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(c->error, sizeof c->error, format, list);
  va_end(list);
  return -1;
}
static void starling__warn(const starling_client* c, const char* what, const char* text) {
  if (!c->spec.quiet) fprintf(stderr, "starling: %s%s\n", what, text);
}

static uint64_t starling__floats(const starling_tensor* t) {
  uint64_t floats = 1;
  for (int i = 0; i < t->dims; ++i) floats *= (uint64_t)t->shape[i];
  return floats;
}
static float* starling__piece(const starling_client* c, const starling__region* r, uint64_t begin, size_t i) {
  return (float*)(void*)(r->memory + begin) + c->offsets[i];
}
static void starling__unmap(starling__region* r) {
  if (r->memory != NULL) munmap(r->memory, r->bytes);
  memset(r, 0, sizeof *r);
}

// The connection

static void starling__flush(starling_client* c) {
  while (c->unsent_at < c->unsent_size) {
    const ssize_t sent =
        send(c->socket, c->unsent + c->unsent_at, c->unsent_size - c->unsent_at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) break;  // the end of the connection shows when receiving
    c->unsent_at += (size_t)sent;
  }
  c->unsent_at = c->unsent_size = 0;
}
// Sends what the socket accepts now, the rest later. A line that finds no memory ends the connection.
static void starling__send(starling_client* c, const char* text) {
  const size_t length = strlen(text);
  char* grown = (char*)realloc(c->unsent, c->unsent_size + length);
  if (grown == NULL) {
    shutdown(c->socket, SHUT_RDWR);
    return;
  }
  c->unsent = grown;
  memcpy(c->unsent + c->unsent_size, text, length);
  c->unsent_size += length;
  starling__flush(c);
}

// Waits until something can be received or sent. Returns 0 if a signal came.
static int starling__poll(starling_client* c, int milliseconds) {
  struct pollfd p = {c->socket, (short)(POLLIN | (c->unsent_size > c->unsent_at ? POLLOUT : 0)), 0};
  return poll(&p, 1, milliseconds) >= 0 || errno != EINTR;
}

static void starling__drop(starling_client* c) {
  if (c->socket >= 0) close(c->socket);
  if (c->descriptor >= 0) close(c->descriptor);
  c->socket = c->descriptor = -1;
  c->in_size = c->unsent_at = c->unsent_size = 0;
  starling__unmap(&c->next);
  if (c->state != STARLING__OVER) c->state = STARLING__ALONE;
}

static void starling__keep_descriptor(starling_client* c, struct msghdr* message) {
  for (struct cmsghdr* m = CMSG_FIRSTHDR(message); m != NULL; m = CMSG_NXTHDR(message, m)) {
    if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_RIGHTS) continue;
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(m), sizeof descriptor);
    if (c->descriptor >= 0) close(c->descriptor);
    c->descriptor = descriptor;
  }
}

// Receives bytes, without waiting. Returns 1, 0 if there are none, or -1 at the end of the connection.
static int starling__receive(starling_client* c) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {c->in + c->in_size, sizeof c->in - c->in_size};
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control.bytes, message.msg_controllen = sizeof control.bytes;
  if (part.iov_len == 0) return -1;  // a line that is too long
  const ssize_t size = recvmsg(c->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  if (size == 0) return -1;
  starling__keep_descriptor(c, &message);
  c->in_size += (size_t)size;
  return 1;
}

static int starling__connect(starling_client* c) {
  c->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (c->socket < 0 || connect(c->socket, (struct sockaddr*)&c->address, sizeof c->address) != 0) {
    starling__fail(c, "no peer accepts at %s (%s); start one with `starling peer --trainer %s`",
                   c->address.sun_path, strerror(errno), c->address.sun_path);
    starling__drop(c);
    return -1;
  }
  c->state = STARLING__DECLARED;
  return 0;
}

static void starling__declare_tensor(starling_client* c, const starling_tensor* t) {
  static const char* const roles[] = {"trained", "running", "frozen"};
  char line[STARLING__LINE_MAX];
  int at =
      snprintf(line, sizeof line, "tensor %s f32 %s %s", t->name, roles[t->role], t->dims == 0 ? "-" : "");
  for (int i = 0; i < t->dims; ++i) {
    at += snprintf(line + at, sizeof line - (size_t)at, i == 0 ? "%lld" : ",%lld", (long long)t->shape[i]);
  }
  snprintf(line + at, sizeof line - (size_t)at, "\n");
  starling__send(c, line);
}

static void starling__declare(starling_client* c) {
  const starling_spec* s = &c->spec;
  const char *words[] = {"model", "data", "device"}, *texts[] = {s->model, s->data, s->device};
  char line[STARLING__LINE_MAX];
  starling__send(c, "starling-trainer 1.1\n");
  starling__send(c, s->mode == STARLING_VIEW ? "mode view\n" : "mode copy\n");
  for (int i = 0; i < 3; ++i) {
    if (texts[i] == NULL) continue;
    snprintf(line, sizeof line, "%s %.2000s\n", words[i], texts[i]);
    starling__send(c, line);
  }
  const char* numbers[] = {"epoch", "batch"};
  for (int i = 0; i < 2; ++i) {
    const uint64_t value = i == 0 ? s->epoch : s->batch;
    snprintf(line, sizeof line, "%s %llu\n", numbers[i], (unsigned long long)value);
    if (value > 0) starling__send(c, line);
  }
  if (c->made.steps > 0) {
    snprintf(line, sizeof line, "made %llu %llu %llu %.0f\n", (unsigned long long)c->made.steps,
             (unsigned long long)c->made.samples, (unsigned long long)(c->made.others + c->made.samples),
             floor(starling__now() - c->made.began));
    starling__send(c, line);
  }
  for (size_t i = 0; i < s->count; ++i) starling__declare_tensor(c, &s->tensors[i]);
  starling__send(c, "end\n");
}

// The region

static int starling__map(starling_client* c, uint64_t bytes) {
  struct stat file;
  starling__region* r = &c->next;
  if (c->descriptor < 0 || fstat(c->descriptor, &file) != 0 || bytes < STARLING__HEAD ||
      (uint64_t)file.st_size < bytes) {
    return starling__fail(c, "the peer's region has fewer bytes than it says");
  }
  void* memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->descriptor, 0);
  close(c->descriptor);
  c->descriptor = -1;
  if (memory == MAP_FAILED) return starling__fail(c, "cannot map the peer's region (%s)", strerror(errno));
  r->memory = (unsigned char*)memory, r->bytes = (size_t)bytes;
  const unsigned major = r->memory[8] + 256u * r->memory[9], minor = r->memory[10] + 256u * r->memory[11];
  if (memcmp(r->memory, "STARLING", 8) != 0) return starling__fail(c, "the peer's region is not one");
  if (major != 1) {
    return starling__fail(
        c,
        "the peer has version %u.%u of the contract with trainers; this client has 1.1, and "
        "accepts every 1.x",
        major, minor);
  }
  r->floats = starling__get(r, 32), r->arena = starling__get(r, 64);
  r->post = starling__get(r, 72), r->reply = starling__get(r, 80);
  const uint64_t begins[] = {r->arena, r->post, r->reply};
  for (int i = 0; i < (c->spec.mode == STARLING_VIEW ? 1 : 3); ++i) {
    if (begins[i] < STARLING__HEAD || begins[i] > bytes || r->floats > (bytes - begins[i]) / 4)
      return starling__fail(c, "the peer's region has an array outside of it");
  }
  return 0;
}

// Finds the tensors' offsets in the table: lines of OFFSET FLOATS TYPE ROLE SHAPE NAME.
static int starling__read_table(starling_client* c) {
  const starling__region* r = &c->next;
  const uint64_t begin = starling__get(r, 48), length = starling__get(r, 56);
  if (begin > r->bytes || length > r->bytes - begin || length > INT32_MAX)
    return starling__fail(c, "the peer's table is outside of it");
  const char *text = (const char*)r->memory + begin, *end = text + length;
  size_t found = 0;
  for (size_t i = 0; i < c->spec.count; ++i) c->offsets[i] = UINT64_MAX;  // not found yet
  while (text < end) {
    const char* stop = (const char*)memchr(text, '\n', (size_t)(end - text));
    char line[STARLING__LINE_MAX], name[STARLING__NAME_MAX + 1];
    unsigned long long offset, floats;
    if (stop == NULL) stop = end;
    snprintf(line, sizeof line, "%.*s", (int)(stop - text), text);
    text = stop + 1;
    if (sscanf(line, "%llu %llu %*s %*s %*s %200s", &offset, &floats, name) != 3) continue;
    for (size_t i = 0; i < c->spec.count; ++i) {
      if (strcmp(c->spec.tensors[i].name, name) != 0) continue;
      if (floats != starling__floats(&c->spec.tensors[i]) || offset > r->floats ||
          floats > r->floats - offset)
        return starling__fail(c, "the peer's table has another tensor %s", name);
      if (c->offsets[i] != UINT64_MAX) return starling__fail(c, "the peer's table has %s twice", name);
      c->offsets[i] = offset;
      ++found;
    }
  }
  return found == c->spec.count ? 0 : starling__fail(c, "the peer's table lacks tensors of this trainer");
}

// A frozen tensor's value beyond 2^60, which no peer accepts, travels as a mark: "keep your own".
static const float starling__mark = 0x1p-120f;

static int starling__is_mark(float value) {
  return fabsf(value) <= starling__mark && fabsf(value) > starling__mark / 16;
}

// In view mode the trainer's tensors are the arena, but for frozen ones.
static int starling__is_viewed(const starling_client* c, size_t i) {
  return c->spec.mode == STARLING_VIEW && c->spec.tensors[i].role != STARLING_FROZEN;
}

static void starling__write_piece(const starling_tensor* t, float* piece) {
  const uint64_t floats = starling__floats(t);
  for (uint64_t k = 0; k < floats; ++k) {
    const int marked = t->role == STARLING_FROZEN && !(fabsf(t->data[k]) <= 0x1p60f);
    piece[k] = marked ? starling__mark : t->data[k];
  }
}

static void starling__write(const starling_client* c, const starling__region* r, uint64_t begin) {
  for (size_t i = 0; i < c->spec.count; ++i)
    starling__write_piece(&c->spec.tensors[i], starling__piece(c, r, begin, i));
}

static int starling__open(starling_client* c, const char* bytes) {
  static const int counts[] = {STARLING__STEPS,   STARLING__SAMPLES,    STARLING__ACCURACY_STEPS,
                               STARLING__POST,    STARLING__POST_STEPS, STARLING__POST_SAMPLES,
                               STARLING__POST_ERA};
  static const int reals[] = {STARLING__LOSS, STARLING__ACCURACY, STARLING__RATE};
  const starling__region* r = &c->next;
  if (starling__map(c, strtoull(bytes, NULL, 10)) != 0 || starling__read_table(c) != 0) return -1;
  starling__write(c, r, c->spec.mode == STARLING_VIEW ? r->arena : r->post);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) starling__set(r, counts[i], 0);
  for (size_t i = 0; i < sizeof reals / sizeof *reals; ++i) starling__set_real(r, reals[i], (double)NAN);
  c->state = STARLING__READY;
  starling__send(c, "ready\n");
  return 0;
}

// Copy mode, with x the trainer's parameters, s its last snapshot, r the reply

// x = r
static void starling__copy_reply(starling_client* c) {
  for (size_t i = 0; i < c->spec.count; ++i) {
    const starling_tensor* t = &c->spec.tensors[i];
    if (t->role == STARLING_FROZEN) continue;
    memcpy(t->data, starling__piece(c, &c->region, c->region.reply, i), 4 * starling__floats(t));
  }
}

static int starling__has_nan(const starling_tensor* t) {
  const uint64_t floats = starling__floats(t);
  for (uint64_t k = 0; k < floats; ++k)
    if (isnan(t->data[k])) return 1;
  return 0;
}

// Frozen tensors take the first replica, and one that heals them of NaN. Otherwise they are kept.
static void starling__adopt_frozen(starling_client* c, uint64_t begin) {
  for (size_t i = 0; i < c->spec.count; ++i) {
    const starling_tensor* t = &c->spec.tensors[i];
    if (t->role != STARLING_FROZEN || (c->was_started && !starling__has_nan(t))) continue;
    const float* piece = starling__piece(c, &c->region, begin, i);
    const uint64_t floats = starling__floats(t);
    for (uint64_t k = 0; k < floats; ++k)
      if (!starling__is_mark(piece[k])) t->data[k] = piece[k];
  }
}

// x = r; in view mode the arena becomes x.
static void starling__adopt(starling_client* c) {
  const int views = c->spec.mode == STARLING_VIEW;
  starling__adopt_frozen(c, views ? c->region.arena : c->region.reply);
  if (!views) starling__copy_reply(c);
  for (size_t i = 0; i < c->spec.count; ++i)
    if (starling__is_viewed(c, i))
      c->spec.tensors[i].data = starling__piece(c, &c->region, c->region.arena, i);
}

// x += r - s
static void starling__add(starling_client* c) {
  for (size_t i = 0; i < c->spec.count; ++i) {
    const starling_tensor* t = &c->spec.tensors[i];
    if (t->role == STARLING_FROZEN) continue;
    const float* reply = starling__piece(c, &c->region, c->region.reply, i);
    const float* snapshot = starling__piece(c, &c->region, c->region.post, i);
    const uint64_t floats = starling__floats(t);
    for (uint64_t k = 0; k < floats; ++k) t->data[k] += reply[k] - snapshot[k];
  }
}

static void starling__take(starling_client* c) {
  const uint64_t era = starling__get(&c->region, STARLING__ERA);
  if (era != c->era) {
    if (c->pending) c->has_rung = 0;
    c->era = era;
    ++c->eras;
    starling__adopt(c);
  } else if (c->steps > c->posted_steps) {
    starling__add(c);
  } else {
    starling__copy_reply(c);
  }
  c->pending = 0;
}

static void starling__post(starling_client* c) {
  const starling__region* r = &c->region;
  starling__write(c, r, r->post);
  c->posted_steps = c->steps;
  c->pending = 1;
  starling__set(r, STARLING__POST_STEPS, c->steps);
  starling__set(r, STARLING__POST_SAMPLES, c->samples);
  starling__set(r, STARLING__POST_ERA, c->era);
  starling__set(r, STARLING__POST, ++c->post);
}

static void starling__start(starling_client* c) {
  starling__region old = c->region;
  c->region = c->next;
  memset(&c->next, 0, sizeof c->next);
  c->steps = c->samples = c->posted_steps = 0;
  c->has_rung = c->pending = 0;
  c->era = starling__get(&c->region, STARLING__ERA);
  c->post = starling__get(&c->region, STARLING__REPLY);
  starling__set(&c->region, STARLING__POST, c->post);
  starling__adopt(c);
  starling__unmap(&old);
  c->state = STARLING__STARTED;
  c->refused = 0;
  starling__set_real(&c->region, STARLING__RATE, c->rate);
  if (c->spec.events) starling__send(c, "events\n");
  if (c->was_started) starling__warn(c, "attached to the peer again", "");
  c->was_started = 1;
}

// Lines

// Of `event KIND WORD [WORD]`; one with another form is ignored. The oldest makes room.
static void starling__keep_event(starling_client* c, const char* text) {
  starling_event e;
  memset(&e, 0, sizeof e);
  if (sscanf(text, "%15s %71s %23s", e.kind, e.name, e.text) < 2) return;
  if (strcmp(e.kind, "missed") == 0 || strcmp(e.kind, "members") == 0) {
    snprintf(e.text, sizeof e.text, "%.23s", e.name);
    e.name[0] = '\0';
  }
  starling__events* ring = &c->events;
  if (ring->count == STARLING__EVENTS_MAX) {
    ++ring->first;
    --ring->count;
    ++ring->missed;
  }
  ring->kept[(ring->first + ring->count++) % STARLING__EVENTS_MAX] = e;
}

static void starling__handle(starling_client* c, char* line) {
  char* text = strchr(line, ' ');
  if (text != NULL) *text++ = '\0';
  if (text == NULL) text = line + strlen(line);
  if (strcmp(line, "region") == 0 && c->state == STARLING__DECLARED && starling__open(c, text) != 0) {
    snprintf(c->text, sizeof c->text, "%.4000s", c->error);
    c->state = STARLING__REFUSED;
  }
  if (strcmp(line, "start") == 0 && c->state == STARLING__READY) starling__start(c);
  if (strcmp(line, "say") == 0) starling__warn(c, text, "");
  if (strcmp(line, "event") == 0 && c->spec.events) starling__keep_event(c, text);
  if (strcmp(line, "refused") == 0) {
    snprintf(c->text, sizeof c->text, "%s", text);
    c->state = STARLING__REFUSED;
  }
  if (strcmp(line, "over") == 0) {
    snprintf(c->text, sizeof c->text, "%s", text);
    if (c->state == STARLING__STARTED && c->spec.mode == STARLING_COPY) starling__adopt(c);
    c->state = STARLING__OVER;
  }
}

// Handles what has arrived. Returns -1 at the end of the connection.
static int starling__read(starling_client* c) {
  if (c->unsent_size > 0) starling__flush(c);
  const int received = starling__receive(c);
  if (received <= 0) return received;
  char *begin = c->in, *end = c->in + c->in_size, *stop;
  while ((stop = (char*)memchr(begin, '\n', (size_t)(end - begin))) != NULL) {
    *stop = '\0';
    starling__handle(c, begin);
    begin = stop + 1;
  }
  c->in_size = (size_t)(end - begin);
  memmove(c->in, begin, c->in_size);
  return 0;
}

// Steps

// Takes the reply, or another replica, if there is one.
static void starling__look(starling_client* c) {
  const starling__region* r = &c->region;
  if (c->spec.mode == STARLING_VIEW) {
    const uint64_t era = starling__get(r, STARLING__ERA);
    c->eras += era != c->era;
    c->era = era;
  } else if (starling__get(r, STARLING__ERA) != c->era ||
             (c->pending && starling__get(r, STARLING__REPLY) >= c->post)) {
    starling__take(c);
  }
}

// In view mode: what the trainer has written into frozen tensors.
static void starling__write_frozen(starling_client* c) {
  for (size_t i = 0; i < c->spec.count; ++i)
    if (!starling__is_viewed(c, i))
      starling__write_piece(&c->spec.tensors[i], starling__piece(c, &c->region, c->region.arena, i));
}

// Parts 2 to 4 of a step.
static int starling__turn(starling_client* c) {
  const starling__region* r = &c->region;
  starling__look(c);
  const uint64_t due = starling__get(r, STARLING__RING_AT);
  if (due <= c->steps && (!c->has_rung || due != c->rung) && !c->pending) {
    c->rung = due, c->has_rung = 1;
    if (c->spec.mode == STARLING_COPY)
      starling__post(c);
    else
      starling__write_frozen(c);
    starling__send(c, "ring\n");
  }
  return starling__read(c);
}

static void starling__say(starling_client* c) {
  static const char* const reasons[] = {"", "its owner paused it", "the rule waits for other peers",
                                        "the replica was lost, and another one is being copied",
                                        "the last samples or steps of the run are being made"};
  const uint64_t reason = starling__get(&c->region, STARLING__WAITS);
  if (reason == 0 || reason > 4 || (c->said >> reason & 1) != 0) return;
  c->said |= 1ul << reason;
  starling__warn(c, "the next step waits for the peer: ", reasons[reason]);
}

// Part 5: returns when the next step is allowed, after a signal, or -1 at the end of the connection.
static int starling__wait(starling_client* c) {
  const double since = starling__now();
  while (c->state == STARLING__STARTED && c->steps >= starling__get(&c->region, STARLING__ALLOWED)) {
    if (!starling__poll(c, 1000)) return 0;
    if (starling__now() - since >= 1) starling__say(c);
    if (starling__turn(c) != 0) return -1;
  }
  return 0;
}

static void starling__lost(starling_client* c) {
  if (c->state == STARLING__STARTED) {
    const uint64_t swarm = starling__get(&c->region, STARLING__SWARM_SAMPLES);
    c->made.others = swarm > c->made.samples ? swarm - c->made.samples : 0;
    starling__warn(c, "the peer has ended; training continues without it until it returns", "");
  }
  starling__drop(c);
}

// One part of attaching again, without waiting; every 0.1 s it connects, after a refusal after 5 s.
static void starling__return(starling_client* c) {
  if (c->state == STARLING__ALONE) {
    const double now = starling__now();
    if (now < c->next_try) return;
    c->next_try = now + 0.1;
    if (starling__connect(c) != 0) return;
    starling__declare(c);
  }
  if (starling__read(c) != 0 || c->state == STARLING__REFUSED) {
    if (c->state == STARLING__REFUSED) {
      if (!c->refused) starling__warn(c, "the peer refuses this trainer, which trains on alone: ", c->text);
      c->refused = 1;
      c->next_try = starling__now() + 5;
      starling__fail(c, "%s", c->text);
    }
    starling__lost(c);
  } else if (c->state == STARLING__STARTED && starling__wait(c) != 0) {
    starling__lost(c);
  }
}

int starling_step(starling_client* c, uint64_t samples, double loss) {
  if (c->state == STARLING__OVER) return 0;
  if (getpid() != c->owner) return 1;
  ++c->made.steps;
  c->made.samples += samples;
  if (c->state != STARLING__STARTED) {
    starling__return(c);
  } else {
    const starling__region* r = &c->region;
    starling__set(r, STARLING__SAMPLES, c->samples += samples);
    starling__set_real(r, STARLING__LOSS, loss);
    starling__set(r, STARLING__STEPS, ++c->steps);
    if (starling__turn(c) != 0 || starling__wait(c) != 0) starling__lost(c);
    // A reply that came since precedes what is allowed: the next step begins with it.
    if (c->state == STARLING__STARTED && c->pending) starling__look(c);
  }
  if (c->state != STARLING__OVER) return 1;
  starling__drop(c);
  return 0;
}

// Beginning and end

static int starling__can_begin(const starling_tensor* t) {
  const uint64_t floats = starling__floats(t);
  for (uint64_t k = 0; k < floats; ++k) {
    const float value = t->data[k];
    if (isnan(value) || (t->role != STARLING_FROZEN && fabsf(value) > 0x1p60f)) return 0;
  }
  return 1;
}

static int starling__check(starling_client* c, const char* path, const starling_spec* spec) {
  if (spec == NULL || spec->size != sizeof(starling_spec)) {
    return starling__fail(c, "spec.size must be sizeof(starling_spec); begin with STARLING_SPEC");
  }
  c->spec = *spec;
  if (path == NULL || strlen(path) >= sizeof c->address.sun_path) {
    return starling__fail(c, "the socket's path must have at most %zu bytes", sizeof c->address.sun_path - 1);
  }
  c->address.sun_family = AF_UNIX;
  memcpy(c->address.sun_path, path, strlen(path) + 1);
  for (size_t i = 0; i < spec->count; ++i) {
    const starling_tensor* t = &spec->tensors[i];
    int good = t->name != NULL && t->name[0] != '\0' && strlen(t->name) <= STARLING__NAME_MAX &&
               t->data != NULL && strpbrk(t->name, " \t\r\n") == NULL && t->role >= STARLING_TRAINED &&
               t->role <= STARLING_FROZEN && t->dims >= 0 && t->dims <= STARLING_DIMS_MAX;
    for (int k = 0; good && k < t->dims; ++k) good = t->shape[k] > 0;
    if (!good) {
      return starling__fail(
          c,
          "tensor %zu must have a name of 1 to %d bytes without spaces, data, a role, and 0 to "
          "%d extents above 0",
          i, STARLING__NAME_MAX, STARLING_DIMS_MAX);
    }
    if (!starling__can_begin(t)) {
      return starling__fail(c, "tensor %s has NaN or values beyond 2^60; a swarm averages numbers up to 2^60",
                            t->name);
    }
  }
  c->offsets = (uint64_t*)calloc(spec->count + 1, sizeof *c->offsets);
  c->own = (float**)calloc(spec->count + 1, sizeof *c->own);
  if (c->offsets == NULL || c->own == NULL) return starling__fail(c, "out of memory");
  for (size_t i = 0; i < spec->count; ++i) c->own[i] = spec->tensors[i].data;
  return 0;
}

int starling_attach(const char* path, const starling_spec* spec, starling_client** client) {
  starling_client* c = *client = (starling_client*)calloc(1, sizeof *c);
  if (c == NULL) return -1;
  c->socket = c->descriptor = -1;
  c->owner = getpid();
  c->made.began = starling__now();
  c->rate = (double)NAN;
  if (starling__check(c, path, spec) != 0 || starling__connect(c) != 0) return -1;
  starling__declare(c);
  int result = 0;
  while (result == 0 && c->state < STARLING__STARTED) {
    starling__poll(c, 1000);
    result = starling__read(c);
  }
  if (result == 0 && c->state == STARLING__STARTED) result = starling__wait(c);
  if (c->state == STARLING__REFUSED) return starling__fail(c, "%s", c->text);
  if (c->state == STARLING__OVER && !c->was_started) return starling__fail(c, "the peer ended: %s", c->text);
  if (result != 0 && c->error[0] == '\0')
    return starling__fail(c, "the peer at %s ended the connection", path);
  return result;
}

// Waits until the reply has arrived (`over` = 0) or the run is over. Returns -1 at the end of the connection.
static int starling__await(starling_client* c, int over, double seconds) {
  const double end = starling__now() + seconds;
  while (c->state == STARLING__STARTED && (over || c->pending) && starling__now() < end) {
    starling__poll(c, 20);
    if (!over) starling__look(c);
    if (starling__read(c) != 0) return -1;
  }
  return 0;
}

static void starling__leave(starling_client* c) {
  const int copy = c->spec.mode == STARLING_COPY;
  c->posted_steps = 0;  // what changed after the last step counts, too
  if (copy && c->pending && starling__await(c, 0, 1) != 0) return;
  if (c->state != STARLING__STARTED) return;
  if (copy && !c->pending && c->steps > 0) {
    starling__post(c);
    starling__send(c, "ring\n");
  }
  if (!copy) starling__write_frozen(c);
  starling__send(c, "bye\n");
  if (starling__await(c, 1, 10) == 0 && c->state != STARLING__OVER) {
    starling__warn(c, "the peer did not answer `bye` within 10 s", "");
  }
}

void starling_detach(starling_client* c) {
  if (c == NULL) return;
  const int mine = getpid() == c->owner;
  if (mine && c->state == STARLING__STARTED && c->socket >= 0 && c->was_started) starling__leave(c);
  for (size_t i = 0; mine && c->was_started && i < c->spec.count; ++i) {
    starling_tensor* t = &c->spec.tensors[i];
    if (!starling__is_viewed(c, i)) continue;
    memcpy(c->own[i], t->data, 4 * starling__floats(t));
    t->data = c->own[i];
  }
  if (mine) starling__drop(c);
  starling__unmap(&c->region);
  free(c->unsent);
  free(c->offsets);
  free(c->own);
  free(c);
}

// What is known

void starling_progress(const starling_client* c, starling_state* state) {
  const starling__region* r = &c->region;
  const size_t size = state->size;
  starling_state s;
  memset(&s, 0, sizeof s);
  s.size = size, s.rate_factor = 1;
  if (r->memory != NULL) {
    s.samples = starling__get(r, STARLING__SWARM_SAMPLES);
    s.epochs = c->spec.epoch > 0 ? (double)s.samples / (double)c->spec.epoch : 0;
    s.exchanges = starling__get(r, STARLING__EXCHANGES);
    s.members = starling__get_half(r, STARLING__MEMBERS);
    s.rate_factor = starling__get_real(r, STARLING__RATE_FACTOR);
  }
  s.eras = c->eras;
  s.attached = c->state == STARLING__STARTED;
  s.done = c->state == STARLING__OVER;
  memcpy(state, &s, size < sizeof s ? size : sizeof s);
}

int starling_next_event(starling_client* c, starling_event* event) {
  starling__events* ring = &c->events;
  if (ring->missed > 0) {
    memset(event, 0, sizeof *event);
    snprintf(event->kind, sizeof event->kind, "missed");
    snprintf(event->text, sizeof event->text, "%lu", ring->missed);
    ring->missed = 0;
    return 1;
  }
  if (ring->count == 0) return 0;
  *event = ring->kept[ring->first++ % STARLING__EVENTS_MAX];
  --ring->count;
  return 1;
}

void starling_share(const starling_client* c, uint32_t* index, uint32_t* of) {
  *index = c->region.memory != NULL ? starling__get_half(&c->region, STARLING__SHARE_INDEX) : 0;
  *of = c->region.memory != NULL ? starling__get_half(&c->region, STARLING__SHARE_OF) : 1;
}

void starling_report_accuracy(starling_client* c, double accuracy) {
  if (c->state != STARLING__STARTED || getpid() != c->owner) return;
  starling__set_real(&c->region, STARLING__ACCURACY, accuracy);
  starling__set(&c->region, STARLING__ACCURACY_STEPS, c->steps);
}

void starling_report_rate(starling_client* c, double learning_rate) {
  c->rate = learning_rate;
  if (c->state != STARLING__STARTED || getpid() != c->owner) return;
  starling__set_real(&c->region, STARLING__RATE, learning_rate);
}

const char* starling_last_error(const starling_client* c) { return c == NULL ? "out of memory" : c->error; }

#endif  // STARLING_CLIENT_IMPLEMENTATION
