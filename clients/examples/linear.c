// Softmax regression on a table, the network of `starling peer --model softmax --data FILE.csv`, in a swarm
// with such peers or without. FILE.csv has a line of names, then numbers, the last of which is the class.
//
//     cc -O2 -I clients/c clients/examples/linear.c -o linear -lm
//     starling peer --trainer /tmp/trainer --join 127.0.0.1:7100 --listen 127.0.0.1:0 &
//     ./linear /tmp/trainer table.csv
#define STARLING_CLIENT_IMPLEMENTATION
#include "starling_client.h"

#include <math.h>

enum { kInputs = 8, kClasses = 4, kBatch = 32, kRows = 100000 };

static float x[kRows][kInputs];
static int label[kRows], rows;

// Reads the table, and scales each column to mean 0 and deviation 1.
static int read_table(const char* path) {
  char line[4096];
  FILE* const file = fopen(path, "r");
  if (!file || !fgets(line, sizeof line, file)) return 0;
  for (; rows < kRows && fgets(line, sizeof line, file); ++rows) {
    char* at = line;
    for (int i = 0; i < kInputs; ++i, ++at) x[rows][i] = strtof(at, &at);
    label[rows] = (int)strtol(at, NULL, 10);
    if (label[rows] < 0 || label[rows] >= kClasses) break;
  }
  fclose(file);
  for (int i = 0; i < kInputs; ++i) {
    double mean = 0, square = 0;
    for (int k = 0; k < rows; ++k) mean += (double)x[k][i] / rows, square += (double)x[k][i] * x[k][i] / rows;
    for (int k = 0; k < rows; ++k) x[k][i] = (float)((x[k][i] - mean) / sqrt(square - mean * mean));
  }
  return rows;
}

// The probability of each class for row k; returns the most probable one.
static int predict(const float* w, const float* b, int k, float p[kClasses]) {
  float sum = 0;
  int best = 0;
  for (int c = 0; c < kClasses; ++c) {
    p[c] = b[c];
    for (int i = 0; i < kInputs; ++i) p[c] += w[c * kInputs + i] * x[k][i];
    if (p[c] > p[best]) best = c;
  }
  for (int c = 0; c < kClasses; ++c) sum += p[c] = expf(p[c]);
  for (int c = 0; c < kClasses; ++c) p[c] /= sum;
  return best;
}

// One step of stochastic gradient descent; returns the batch's mean cross-entropy.
static double make_step(float* w, float* b, float rate) {
  float gradient[kClasses][kInputs + 1] = {{0}}, p[kClasses];
  double loss = 0;
  for (int n = 0; n < kBatch; ++n) {
    const int k = rand() % rows;
    predict(w, b, k, p);
    loss -= log(p[label[k]] + 1e-12) / kBatch;
    p[label[k]] -= 1;
    for (int c = 0; c < kClasses; ++c) {
      for (int i = 0; i < kInputs; ++i) gradient[c][i] += p[c] * x[k][i] / kBatch;
      gradient[c][kInputs] += p[c] / kBatch;
    }
  }
  for (int c = 0; c < kClasses; ++c) {
    for (int i = 0; i < kInputs; ++i) w[c * kInputs + i] -= rate * gradient[c][i];
    b[c] -= rate * gradient[c][kInputs];
  }
  return loss;
}

int main(int argc, char** argv) {
  static float w[kClasses * kInputs], b[kClasses];
  starling_tensor tensors[] = {{"fc1.weight", STARLING_TRAINED, {kClasses, kInputs}, 2, w},
                               {"fc1.bias", STARLING_TRAINED, {kClasses}, 1, b}};
  starling_spec spec = STARLING_SPEC;
  if (argc < 3) return fprintf(stderr, "usage: linear SOCKET FILE.csv [STEPS] [copy|view]\n"), 2;
  if (!read_table(argv[2])) return fprintf(stderr, "linear: no rows in %s\n", argv[2]), 2;
  spec.model = "softmax", spec.data = "table", spec.epoch = (uint64_t)rows, spec.batch = kBatch;
  spec.mode = argc > 4 && strcmp(argv[4], "view") == 0 ? STARLING_VIEW : STARLING_COPY;
  spec.tensors = tensors, spec.count = 2;
  starling_client* client;
  if (starling_attach(argv[1], &spec, &client) != 0) {
    fprintf(stderr, "linear: %s\n", starling_last_error(client));
    return starling_detach(client), 1;
  }
  srand((unsigned)getpid());  // each peer draws batches of its own
  const long steps = argc > 3 ? atol(argv[3]) : 1000000;
  double loss = 0, right = 0;
  float p[kClasses];
  for (long i = 0; i < steps; ++i) {
    loss = make_step(tensors[0].data, tensors[1].data, 0.05f);
    if (!starling_step(client, kBatch, loss)) break;  // the run is over
  }
  starling_detach(client);
  for (int k = 0; k < rows; ++k) right += predict(w, b, k, p) == label[k];
  printf("loss %.4f, accuracy %.4f\n", loss, right / rows);
  return 0;
}
