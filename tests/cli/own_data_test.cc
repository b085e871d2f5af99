// A saved model and the data that it judges: its own normalization and classes, contradictions, and files
// that must not be overwritten.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// Rows of two classes, 6 apart in the first column, the rows moved by `by`.
std::string rows(int count, double by, const char* more = "") {
  std::ostringstream text;
  text << "u,v,kind\n" << more;
  for (int k = 0; k < count; ++k) {
    const double noise = static_cast<double>(k * 7919 % 100) / 50 - 1;
    text << by + (k % 2 == 0 ? -3 : 3) + noise << "," << k * 31 % 10 << "," << (k % 2 == 0 ? "ash" : "oak")
         << "\n";
  }
  return text.str();
}

// A model of a table with a third class, "elm", in its training part.
struct Trained {
  Trained() {
    std::filesystem::create_directory(folder.file("a"));
    folder.write("a/train.csv", rows(300, 1000, "900,5,elm\n"));
    folder.write("a/test.csv", rows(40, 1000));
    const Outcome outcome =
        run({"simulate", "--peers", "1", "--model", "softmax", "--data", folder.file("a"), "--epochs", "15",
             "--batch-size", "16", "--learning-rate", "0.2", "--looks", "0", "--out", folder.file("run")});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.find("data a: the labels are column 3 (\"kind\"), the last one") != std::string::npos);
  }
  std::string model() const { return folder.file("run/model.safetensors"); }
  json evaluated(const std::string& data) const {
    return run_json({"evaluate", model(), "--data", data, "--json"});
  }
  TemporaryFolder folder;
};

std::string content_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Writes a copy of a model without metadata, as other programs write them.
void write_bare(const std::string& model, const std::string& path) {
  const std::string whole = content_of(model);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  const std::string data = whole.substr(sizeof length + length);
  json header = json::parse(whole.substr(sizeof length, length));
  header.erase("__metadata__");
  const std::string text = header.dump();
  length = text.size();
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), sizeof length) << text << data;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a model judges test rows alone, and beside other training rows, as beside its own") {
  const Trained trained;
  const auto& folder = trained.folder;
  const json own = trained.evaluated(folder.file("a"));
  CHECK(own.at("samples") == 40);
  CHECK(own.at("accuracy") == 1);
  for (const char* name : {"alone", "beside"}) {
    std::filesystem::create_directory(folder.file(name));
    folder.write(std::string(name) + "/test.csv", rows(40, 1000));
  }
  folder.write("beside/train.csv", rows(10, -50));
  for (const char* name : {"alone", "beside"}) {
    const json other = trained.evaluated(folder.file(name));
    CHECK(other.at("loss") == own.at("loss"));
    CHECK(other.at("accuracy") == own.at("accuracy"));
  }
  const auto predictions = [&](const char* name) {
    return run({"predict", trained.model(), "--data", folder.file(name)}).out;
  };
  CHECK(predictions("alone") == predictions("a"));
  CHECK(predictions("alone").starts_with("sample,class,probability,label,line,class_name,label_name\n0,0,"));
}

TEST_CASE("a run that starts from a model uses its normalization and its classes, and says so") {
  const Trained trained;
  std::filesystem::create_directory(trained.folder.file("b"));
  trained.folder.write("b/train.csv", rows(100, 1010));
  trained.folder.write("b/test.csv", rows(20, 1010));
  const Outcome outcome =
      run({"simulate", "--peers", "1", "--model", "softmax", "--data", trained.folder.file("b"), "--init",
           trained.model(), "--steps", "2", "--looks", "0", "--out", trained.folder.file("tuned")});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(has(outcome.err, "normalized as the model's training data, from which these differ"));
  const auto description = [&](const std::string& file) {
    return run_json({"model", "show", file, "--json"}).at("description");
  };
  const json first = description(trained.model()),
             tuned = description(trained.folder.file("tuned/model.safetensors"));
  CHECK(first.at("class_names") == json::array({"ash", "elm", "oak"}));
  for (const char* key : {"class_names", "offset", "mean", "deviation"})
    CHECK(tuned.at(key) == first.at(key));
  CHECK(tuned.at("fingerprint") != first.at("fingerprint"));
}

TEST_CASE("model show tells of a saved model what it was trained on") {
  const Trained trained;
  const Outcome shown = run({"model", "show", trained.model()});
  CHECK(shown.exit_code == 0);
  for (const char* part :
       {"model.safetensors: softmax, 2 tensors", "trained on a: rows of 2 numbers, 3 classes",
        "features    u, v", "labels      column 3 (\"kind\")", "classes     ash, elm, oak",
        "samples     301, for testing 40"})
    CHECK(has(shown.out, part));
  const auto refused = [](const Words& words) {
    const Outcome outcome = run(words);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    return outcome.err;
  };
  trained.folder.write("m.safetensors", "none");
  CHECK(
      has(refused({"model", "show", trained.folder.file("m.safetensors")}), "it is too short for a header"));
  for (const auto& [flag, value] :
       {std::pair("--batch-size", "8"), std::pair("--input", "1x2x2"), std::pair("--classes", "2"),
        std::pair("--data", "NOSUCH"), std::pair("--optimizer", "adamw"), std::pair("--workers", "2"),
        std::pair("--precision", "bf16"), std::pair("--recompute", "always")})
    CHECK(has(refused({"model", "show", trained.model(), flag, value}),
              std::string(flag) + " has no effect, because " + trained.model() + " is a saved model"));
}

TEST_CASE("a file of another format is refused by its name wherever a model is read") {
  const Trained trained;
  const auto& folder = trained.folder;
  const std::string onnx = folder.file("m.onnx");
  REQUIRE(run({"export", trained.model(), "--format", "onnx", "--out", onnx}).exit_code == 0);
  folder.write("m.pt", std::string("PK\3\4", 4) + std::string(100, 'x'));
  folder.write("old.pt", std::string("\x80\2\x8a\n", 4) + std::string(100, 'x'));
  folder.write("m.gguf", "GGUF" + std::string(100, 'x'));
  for (const auto& [file, what] :
       {std::pair(onnx,
                  "it is a graph in ONNX, which is for other programs; name the file from which it was"),
        std::pair(folder.file("m.pt"),
                  "it is a zip archive, as torch.save writes them; write the tensors with"),
        std::pair(folder.file("old.pt"), "it is a pickle of Python"),
        std::pair(folder.file("m.gguf"), "it is a model in GGUF")}) {
    for (const Words& words :
         {Words{"model", "show", file}, Words{"evaluate", file, "--data", folder.file("a")},
          Words{"export", file, "--out", folder.file("out")}, Words{"generate", file}}) {
      const Outcome outcome = run(words);
      INFO(outcome.err);
      CHECK(outcome.exit_code == 2);
      CHECK(is_one_line(outcome.err));
      CHECK(has(outcome.err, file + " is not a usable safetensors file: " + what));
    }
  }
}

TEST_CASE("what is not said of a model of another program is asked, and what is known is not asked again") {
  const Trained trained;
  const auto& folder = trained.folder;
  const std::string bare = folder.file("bare.safetensors"), data = folder.file("a");
  write_bare(trained.model(), bare);
  CHECK(has(run({"evaluate", bare, "--data", data}).err, "does not name its network; name it with --model"));
  const Outcome named = run({"evaluate", bare, "--data", data, "--model", "softmax"});
  INFO(named.err);
  CHECK(named.exit_code == 0);
  CHECK(has(named.err, "bare.safetensors names no network; its tensors are read as softmax's"));
  std::filesystem::create_directory(folder.file("two"));
  folder.write("two/train.csv", rows(300, 1000));
  folder.write("two/test.csv", rows(40, 1000));
  CHECK(
      has(run({"evaluate", bare, "--data", folder.file("two"), "--model", "softmax"}).err,
          "has 3 outputs in tensor 'fc1.weight', and the data have 2 classes; use data with the classes of"));
}

TEST_CASE("test rows whose labels lack a model's last classes are judged without a description, too") {
  const TemporaryFolder folder;
  const auto table = [&](const std::string& name, int classes) {
    std::filesystem::create_directories(folder.file(name));
    std::string text = "u,v,kind\n";
    for (int k = 0; k < 120; ++k) {
      const int label = k % classes;
      text += std::to_string(label == 1 ? 3 : k % 7 * 0.1) + "," +
              std::to_string(label == 2 ? 5 : k % 5 * 0.1) + "," + std::to_string(label) + "\n";
    }
    for (const char* part : {"/train.csv", "/test.csv"}) folder.write(name + part, text);
    return folder.file(name);
  };
  const std::string three = table("three", 3), two = table("two", 2), bare = folder.file("bare.safetensors");
  REQUIRE(run({"simulate", "--peers", "1", "--model", "softmax", "--data", three, "--epochs", "15",
               "--batch-size", "16", "--learning-rate", "0.2", "--looks", "0", "--out", folder.file("run")})
              .exit_code == 0);
  write_bare(folder.file("run/model.safetensors"), bare);
  const Outcome judged = run({"evaluate", bare, "--data", two, "--model", "softmax"});
  INFO(judged.err);
  REQUIRE(judged.exit_code == 0);
  CHECK(has(judged.err, "bare.safetensors has 3 outputs, and the labels of two go up to 1"));
  CHECK(has(judged.out, "over 120 test samples"));
  CHECK(has(run({"predict", bare, "--data", two, "--model", "softmax", "--probabilities"}).out,
            "probability_2\n"));
}

TEST_CASE("data that a model is not for are refused with both kinds") {
  const Trained trained;
  const auto refused = [&](const std::string& text) {
    trained.folder.write("t.csv", text);
    const Outcome outcome = run({"evaluate", trained.model(), "--data", trained.folder.file("t.csv")});
    CHECK(outcome.exit_code != 0);
    return outcome.err;
  };
  std::string three = "u,v,w,kind\n", swapped = "v,u,kind\n", other = "u,v,kind\n";
  for (int k = 0; k < 10; ++k) {
    three += "1,2,3,ash\n";
    swapped += "1,2,ash\n";
    other += "1,2,yew\n";
  }
  CHECK(has(refused(three), "the model is for rows of 2 numbers, 3 classes, and 't' has rows of 3 numbers"));
  CHECK(has(refused(swapped), "the model is for rows whose feature 1 is 'u', and 't' has 'v' there"));
  CHECK(has(refused(other), "'t' has the class 'yew', and the model's are ash, elm, oak"));
}

TEST_CASE("a network or a tokenizer that contradicts the model's file is refused") {
  const TemporaryFolder folder;
  for (const int heads : {4, 2})
    folder.write(
        "h" + std::to_string(heads) + ".toml",
        "type = \"gpt\"\nlayers = 1\nheads = " + std::to_string(heads) + "\nfeatures = 16\ncontext = 8\n");
  std::string text;
  for (int k = 0; k < 60; ++k) text += "hello world and more text ";
  folder.write("t.txt", text);
  const Outcome trained =
      run({"simulate", "--peers", "1", "--model", folder.file("h4.toml"), "--data", folder.file("t.txt"),
           "--steps", "1", "--looks", "0", "--out", folder.file("run")});
  REQUIRE(trained.exit_code == 0);
  const std::string model = folder.file("run/model.safetensors");
  const auto evaluated = [&](const char* network) {
    return run({"evaluate", model, "--data", folder.file("t.txt"), "--model", folder.file(network)});
  };
  std::filesystem::copy_file(folder.file("h4.toml"), folder.file("same.toml"));
  CHECK(evaluated("same.toml").exit_code == 0);
  const Outcome other = evaluated("h2.toml");
  CHECK(other.exit_code != 0);
  CHECK(has(other.err, "h2.toml differs from the network of " + model + ", h4; omit --model"));
  folder.write("tokenizer.txt", "starling tokenizer 1\nbytes\n");
  const Outcome written = run({"generate", model, "--tokenizer", folder.file("tokenizer.txt")});
  CHECK(written.exit_code != 0);
  CHECK(has(written.err, "differs from the tokenizer in " + model + "; omit --tokenizer"));
}

TEST_CASE("the text that a tokenizer learns from is not overwritten") {
  const TemporaryFolder folder;
  std::string text;
  for (int k = 0; k < 100; ++k) text += "the quick brown fox ";
  folder.write("book.txt", text);
  std::filesystem::create_symlink("book.txt", folder.file("link"));
  for (const char* out : {"book.txt", "link"}) {
    const Outcome outcome =
        run({"tokenizer", "train", folder.file("book.txt"), "--size", "260", "--out", folder.file(out)});
    CHECK(outcome.exit_code != 0);
    CHECK(has(outcome.err, "which is read"));
  }
  CHECK(read_whole(folder.file("book.txt")) == text);
}

TEST_CASE("a run does not overwrite the model from which it starts") {
  const Trained trained;
  const std::string before = content_of(trained.model());
  const Words start = {"--model", "softmax",       "--data",  trained.folder.file("a"),
                       "--init",  trained.model(), "--steps", "1"};
  const auto refused = [&](Words words, const std::string& sentence) {
    words.insert(words.end(), start.begin(), start.end());
    const Outcome outcome = run(words);
    CHECK(outcome.exit_code == 2);
    INFO(outcome.err);
    CHECK(has(outcome.err, sentence));
    CHECK(content_of(trained.model()) == before);
  };
  std::filesystem::create_symlink(trained.model(), trained.folder.file("link.safetensors"));
  for (const std::string& to : {trained.model(), trained.folder.file("link.safetensors")})
    refused({"peer", "--listen", "none", "--export", to},
            "--export: cannot write " + to + ": it is the file " + trained.model() + ", which is read");
  for (const char* command : {"simulate", "swarm"})
    refused({command, "--peers", "1", "--force", "--out", trained.folder.file("run")},
            "is in the folder " + trained.folder.file("run") + ", whose files this run replaces");
}

TEST_CASE("parameters that are not finite are refused") {
  const Trained trained;
  std::string bytes = read_whole(trained.model());
  for (std::size_t i = 0; i < 4; ++i) bytes[bytes.size() - 1 - i] = static_cast<char>(0xff);  // a NaN
  trained.folder.write("nan.safetensors", bytes);
  const std::string nan = trained.folder.file("nan.safetensors"), data = trained.folder.file("a");
  for (const Words& words :
       std::vector<Words>{{"evaluate", nan, "--data", data},
                          {"predict", nan, "--data", data},
                          {"simulate", "--peers", "1", "--model", "softmax", "--data", data, "--init", nan,
                           "--steps", "1", "--out", trained.folder.file("none")}}) {
    const Outcome outcome = run(words);
    CHECK(outcome.exit_code != 0);
    CHECK(has(outcome.err, "1 of the 3 values of tensor 'fc1.bias' are not finite"));
  }
}

TEST_CASE(
    "a peer is warned of data that have changed since its checkpoint, or since the run of its --config") {
  TemporaryFolder folder;
  folder.write("swarms.csv", rows(400, 1000));
  folder.write("mine.csv", rows(200, 1001));
  const auto peer = [&](const Words& more) {
    Words words = {"peer", "--listen", "none", "--name", "alone", "--export", "none"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words).err;
  };
  const auto resume = [&](const char* steps) {
    return peer({"--model", "softmax", "--data", folder.file("swarms.csv"), "--own-data",
                 folder.file("mine.csv"), "--steps", steps, "--checkpoints", folder.file("kept"), "--resume",
                 folder.file("kept")});
  };
  const std::string own_changed = "this peer's own data have changed since";
  CHECK_FALSE(has(resume("5"), own_changed));
  CHECK_FALSE(has(resume("10"), own_changed));
  folder.write("mine.csv", rows(200, 1002));
  CHECK(has(resume("15"), own_changed));

  const std::string out = folder.file("run");
  REQUIRE(run({"simulate", "--peers", "1", "--model", "softmax", "--data", folder.file("swarms.csv"),
               "--steps", "2", "--out", out})
              .exit_code == 0);
  const Words again = {"--config", out + "/experiment.toml", "--steps", "1"};
  const std::string changed = "has changed since a run wrote " + out + "/experiment.toml";
  CHECK_FALSE(has(peer(again), changed));
  folder.write("swarms.csv", rows(400, 1003));
  const std::string said = peer(again);
  INFO(said);
  CHECK(has(said, "the content of " + folder.file("swarms.csv") + " " + changed));
}

TEST_CASE("a joiner with other data is refused, and with --own-data trains on all of them") {
  TemporaryFolder folder;
  folder.write("swarms.csv", rows(400, 1000));
  folder.write("mine.csv", rows(200, 1001));
  Program first({"peer", "--listen", "127.0.0.1:0", "--name", "first", "--model", "softmax", "--data",
                 folder.file("swarms.csv"), "--pace", "1ms", "--export", "none"});
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(!address.empty());
  const auto joiner = [&](const Words& more) {
    Words words = {"peer", "--listen", "127.0.0.1:0", "--join", address, "--export", "none"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };

  const Outcome refused = run(joiner({"--data", folder.file("mine.csv")}));
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.err,
            "data mine: these are other samples or labels than the swarm's, which trains on "
            "'swarms'; --data must name a copy of them, or --own-data data of this peer's own"));
  const Words own_data = {"--own-data", folder.file("mine.csv")};
  for (const Words& flags :
       {own_data, Words{"--data", folder.file("swarms.csv"), "--own-data", folder.file("mine.csv")}}) {
    Program own(joiner(flags));
    CHECK(own.wait_for_error_text("data mine: this peer trains on all of it, 180 samples of its own"));
    CHECK(own.wait_for_error_text("training begins"));
    own.signal(SIGTERM);
    CHECK(own.finish().exit_code == 0);
  }
  folder.write("other.csv", "a,b,c,kind\n" +
                                std::string("1,2,3,ash\n4,5,6,oak\n1,2,4,ash\n1,7,3,oak\n1,2,6,ash\n") +
                                "1,2,3,ash\n4,5,6,oak\n1,2,4,ash\n1,7,3,oak\n1,2,6,ash\n");
  const Outcome unlike = run(joiner({"--own-data", folder.file("other.csv")}));
  CHECK(unlike.exit_code == 2);
  CHECK(has(unlike.err, "data.own_data: "));
  first.signal(SIGTERM);
  CHECK(first.finish().exit_code == 0);
}

TEST_CASE("a peer that waits for a joiner with other data says so at once, in its log and its status") {
  TemporaryFolder folder;
  folder.write("swarms.csv", rows(400, 1000));
  folder.write("mine.csv", rows(200, 1001));
  Program first({"peer", "--listen", "127.0.0.1:0", "--name", "first", "--expect", "2", "--model", "softmax",
                 "--data", folder.file("swarms.csv"), "--http", "127.0.0.1:0", "--export", "none"});
  const std::string http = first.wait_for_error_word("HTTP at ");
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(!address.empty());
  CHECK(first.wait_for_error_text("1 of 2 peers that begin together are there"));
  CHECK(
      has(run({"status", "--at", http}).out, "This peer waits: 1 of 2 peers that begin together are there"));
  const Outcome refused = run({"peer", "--listen", "127.0.0.1:0", "--name", "second", "--join", address,
                               "--data", folder.file("mine.csv"), "--export", "none"});
  CHECK(refused.exit_code == 2);
  const std::string why = "member second cannot take part in this run: data mine: these are other samples";
  CHECK(first.wait_for_error_text(why));
  const std::string status = run({"status", "--at", http}).out;
  CHECK(has(status, "it begins without the others in "));
  CHECK(has(status, "The " + why));
  first.signal(SIGTERM);
  CHECK(first.finish().exit_code == 0);
}

TEST_CASE("peers with data of their own train on all of them, simulated and as processes") {
  TemporaryFolder folder;
  folder.write("common.csv", rows(600, 1000));
  folder.write("second.csv", rows(300, 1000));
  folder.write("own.toml", "peers = 2\ndata.source = \"" + folder.file("common.csv") +
                               "\"\nmodel.name = \"softmax\"\ntraining.steps = 40\n[[peer]]\nnumber = 1\n" +
                               "own_data = \"" + folder.file("second.csv") + "\"\n");
  for (const char* command : {"simulate", "swarm"}) {
    const json summary = summary_of(
        run({command, folder.file("own.toml"), "--out", folder.file(command), "--looks", "0", "--json"}));
    CHECK(summary.at("accuracy") == 1);
    CHECK(summary.at("data") == "common");
    CHECK(summary.at("data_description").at("class_names") == json({"ash", "oak"}));
    CHECK(summary.at("data_description").at("mean").size() == 2);
    CHECK(summary.at("per_peer").at(0).at("own_data").is_null());
    CHECK(summary.at("per_peer").at(1).at("own_data") == "second");
  }
  // Other data of its own: another run, with the same first peer.
  folder.write("second.csv", rows(300, 1001));
  const json other = summary_of(
      run({"simulate", folder.file("own.toml"), "--out", folder.file("other"), "--looks", "0", "--json"}));
  const json first = json::parse(std::ifstream(folder.file("simulate/summary.json")));
  CHECK(other.at("trace_hash") != first.at("trace_hash"));
  folder.write("own.toml", "peers = 2\n[[peer]]\nnumber = 1\nown_data = \"/no/such.csv\"\n");
  const Outcome missing = run({"simulate", folder.file("own.toml"), "--out", folder.file("missing")});
  CHECK(missing.exit_code == 2);
  CHECK(has(missing.err, "data.own_data: "));
}

}  // namespace starling::cli_tests
