#include "datasets/published.h"

#include <algorithm>
#include <sstream>

#include "base/text.h"

namespace starling::datasets {
namespace {

constexpr std::uint64_t kCifarBatch = 10'000 * (1 + 3 * 32 * 32);

std::vector<PublishedFile::Member> cifar10_members() {
  std::vector<PublishedFile::Member> members;
  for (int batch = 1; batch <= 5; ++batch)
    members.push_back({"cifar-10-batches-bin/data_batch_" + std::to_string(batch) + ".bin", kCifarBatch});
  members.push_back({"cifar-10-batches-bin/test_batch.bin", kCifarBatch});
  return members;
}

std::vector<PublishedSet> make_sets() {
  return {
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz",
       {{"cifar-10-binary.tar.gz", 170'052'171,
         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", cifar10_members()}}},
      {"cifar100",
       "https://www.cs.toronto.edu/~kriz",
       {{"cifar-100-binary.tar.gz",
         168'513'733,
         "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
         {{"cifar-100-binary/train.bin", 50'000 * (2 + 3 * 32 * 32)},
          {"cifar-100-binary/test.bin", 10'000 * (2 + 3 * 32 * 32)}}}}},
      {"fashion-mnist",
       "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
       {{"train-images-idx3-ubyte.gz", 26'421'880,
         "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
        {"train-labels-idx1-ubyte.gz", 29'515,
         "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
        {"t10k-images-idx3-ubyte.gz", 4'422'102,
         "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
        {"t10k-labels-idx1-ubyte.gz", 5'148,
         "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}},
      {"kmnist",
       "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
       {{"train-images-idx3-ubyte.gz", 18'165'135,
         "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4"},
        {"train-labels-idx1-ubyte.gz", 29'497,
         "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"},
        {"t10k-images-idx3-ubyte.gz", 3'041'136,
         "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"},
        {"t10k-labels-idx1-ubyte.gz", 5'120,
         "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"}}},
      {"mnist",
       "https://storage.googleapis.com/cvdf-datasets/mnist",
       {{"train-images-idx3-ubyte.gz", 9'912'422,
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
        {"train-labels-idx1-ubyte.gz", 28'881,
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
        {"t10k-images-idx3-ubyte.gz", 1'648'877,
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
        {"t10k-labels-idx1-ubyte.gz", 4'542,
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}},
      {"shakespeare",
       "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare",
       {{"input.txt", 1'115'394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"}}},
  };
}

}  // namespace

const std::vector<PublishedSet>& published_sets() {
  static const std::vector<PublishedSet> kSets = make_sets();
  return kSets;
}

const PublishedSet* find_published(const std::string& name) {
  const auto set = std::ranges::find(published_sets(), name, &PublishedSet::name);
  return set == published_sets().end() ? nullptr : &*set;
}

Result<std::vector<PublishedFile>> parse_file_list(const std::string& text) {
  std::vector<PublishedFile> files;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string sha256, size_text, name, more;
    words >> sha256 >> size_text >> name;
    if (sha256.empty()) continue;
    const auto size = parse_number<std::uint64_t>(size_text);
    const bool hex = sha256.size() == 64 && sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
    const bool plain = !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
    if (!hex || !size || !plain || (words >> more))
      return Error{"line " + std::to_string(number) + " is not SHA256 SIZE NAME"};
    files.push_back({name, *size, sha256});
  }
  if (files.empty()) return Error{"it lists no file"};
  return files;
}

}  // namespace starling::datasets
