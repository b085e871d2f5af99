// A linear model y = w x + b, trained as a peer of a swarm on data that the program makes.
//
//     cc -O2 -I clients/c clients/examples/linear.c -o linear -lm
//     starling peer --trainer /tmp/trainer --listen 127.0.0.1:7100 --epochs 20 &
//     ./linear /tmp/trainer
#define STARLING_CLIENT_IMPLEMENTATION
#include "starling_client.h"

enum { kInputs = 8, kBatch = 32, kEpoch = 2000 };

static double uniform(uint64_t* state) {  // from -1 to 1; splitmix64
  uint64_t z = *state += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return (double)(z >> 11) / 4503599627370496.0 - 1;
}

// A sample of the line that is to be learned: weights 1, 2, 3, ... and bias -1, with a little noise.
static float sample(uint64_t* state, float x[kInputs]) {
  double y = -1 + 0.01 * uniform(state);
  for (int i = 0; i < kInputs; ++i) {
    x[i] = (float)uniform(state);
    y += (i + 1) * x[i];
  }
  return (float)y;
}

// One step of stochastic gradient descent on the mean squared error, which it returns.
static double make_step(uint64_t* state, float* w, float* b, float rate) {
  float gradient[kInputs + 1] = {0}, x[kInputs];
  double loss = 0;
  for (int k = 0; k < kBatch; ++k) {
    float error = -sample(state, x) + *b;
    for (int i = 0; i < kInputs; ++i) error += w[i] * x[i];
    for (int i = 0; i < kInputs; ++i) gradient[i] += 2 * error * x[i] / kBatch;
    gradient[kInputs] += 2 * error / kBatch;
    loss += (double)error * error / kBatch;
  }
  for (int i = 0; i < kInputs; ++i) w[i] -= rate * gradient[i];
  *b -= rate * gradient[kInputs];
  return loss;
}

int main(int argc, char** argv) {
  float w[kInputs] = {0}, b = 0;
  starling_tensor tensors[] = {{"weight", STARLING_TRAINED, {kInputs}, 1, w},
                               {"bias", STARLING_TRAINED, {0}, 0, &b}};
  starling_spec spec = STARLING_SPEC;
  spec.model = "linear", spec.data = "line", spec.device = "C", spec.epoch = kEpoch, spec.batch = kBatch;
  spec.tensors = tensors, spec.count = 2;
  spec.mode = argc > 3 && strcmp(argv[3], "view") == 0 ? STARLING_VIEW : STARLING_COPY;
  if (argc < 2) return fprintf(stderr, "usage: linear SOCKET [STEPS] [copy|view]\n"), 2;
  const long steps = argc > 2 ? atol(argv[2]) : 2000;
  starling_client* client;
  if (starling_attach(argv[1], &spec, &client) != 0) {
    fprintf(stderr, "linear: %s\n", starling_last_error(client));
    starling_detach(client);
    return 1;
  }
  uint64_t state = (uint64_t)getpid();  // each peer draws samples of its own
  double loss = 0;
  for (long i = 0; i < steps; ++i) {
    loss = make_step(&state, tensors[0].data, tensors[1].data, 0.1f);
    if (!starling_step(client, kBatch, loss)) break;
  }
  starling_state progress = {sizeof progress, 0, 0, 0, 0, 0, 0, 0, 0};
  starling_progress(client, &progress);
  starling_detach(client);
  printf("loss %.6f, %llu exchanges, weights", loss, (unsigned long long)progress.exchanges);
  for (int i = 0; i < kInputs; ++i) printf(" %.3f", w[i]);
  printf(", bias %.3f\n", b);
  return 0;
}
