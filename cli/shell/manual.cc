// starling man: the manual page.
#include <fmt/format.h>

#include <cstdio>

#include "cli/shell/completion.h"
#include "cli/shell/help.h"

namespace starling::cli {
namespace {

// As roff wants text: no line begins with a command, and a hyphen is a minus, which can be copied.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const bool begins = safe.empty() || safe.back() == '\n';
    if (begins && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string flag_entry(const Flag& flag) {
  std::string term = "\\fB" + roff(flag.name) + "\\fR";
  if (!flag.placeholder.empty()) term += " \\fI" + roff(flag.placeholder) + "\\fR";
  return ".TP\n" + term + "\n" + roff(flag.help + (flag.repeatable ? " (repeatable)" : "")) + "\n";
}

std::string command_entry(const Command& command) {
  std::string text = ".SS starling " + roff(command.path) + "\n";
  text += roff(command.summary) + ".\n.PP\n\\fBstarling " + roff(command.path) + "\\fR " +
          roff(usage_of(command)) + "\n";
  for (const Positional& positional : command.positionals)
    text += ".TP\n\\fI" + roff(positional.name) + "\\fR\n" + roff(positional.help) + "\n";
  std::string section;
  for (const Flag& flag : command.flags) {
    if (flag.hidden) continue;
    if (flag.section != section) text += ".PP\n" + roff(section = flag.section) + ":\n";
    text += flag_entry(flag);
  }
  return text + ".PP\nFor example:\n.PP\n.nf\n.RS\n" + roff(command.example) + "\n.RE\n.fi\n";
}

}  // namespace

std::string manual_page(const std::vector<Command>& commands, const std::vector<Flag>& shared) {
  std::string text = ".TH STARLING 1 \"\" \"starling " STARLING_VERSION "\" \"User Commands\"\n";
  text += ".SH NAME\nstarling \\- train one neural network on many peers that gossip\n";
  text += ".SH SYNOPSIS\n\\fBstarling\\fR \\fICOMMAND\\fR [\\fIFLAG\\fR...]\n";
  text += R"(.SH DESCRIPTION
Every peer trains its own copy of a model, on whatever hardware it has, and now and then averages its parameters
with one neighbor over TCP. There is no master, no parameter server, and no barrier. Peers come, go, slow down and
die while the others train on.
.PP
\fBstarling peer\fR is such a peer; \fBstarling swarm\fR starts several on this machine, \fBstarling simulate\fR does the
same in virtual time.
)";
  text += ".SH COMMANDS\n";
  for (const Command& command : commands)
    if (!command.hidden) text += command_entry(command);
  text += ".SH FLAGS OF EVERY COMMAND\n";
  text += flag_entry({"--help", "", "what the command takes, with an example; --help all has every flag"});
  for (const Flag& flag : shared) text += flag_entry(flag);
  text += R"(.SH ENVIRONMENT
.TP
\fBSTARLING_DATA\fR
The folder of the data sets that are not built in.
.TP
\fBSTARLING_CUDA_MODULE\fR
The file of the CUDA back end, where it is not beside the program or in ../lib/starling.
.TP
\fBSTARLING_LOG_FORMAT\fR, \fBSTARLING_LOG_LEVEL\fR
As \fB\-\-log\-format\fR and \fB\-\-log\-level\fR; the peers that a command starts inherit them.
.TP
\fBSTARLING_BATCH_SIZE\fR, \fBSTARLING_RULE\fR and so on
Whatever a flag of a run sets, its variable sets too: in capitals, with underscores. Flags beat variables, and
those beat the experiment's file. \fBSTARLING_DATA_SOURCE\fR is \fB\-\-data\fR.
.TP
\fBSTARLING_LISTEN\fR, \fBSTARLING_HTTP\fR, \fBSTARLING_KEY\fR and so on
The same of a peer's own flags, which may also stand under [daemon] in the file that it is given with \fB\-\-config\fR:
listen = "0.0.0.0:7100". \fBSTARLING_JOIN\fR may name several peers, with commas between them. A swarm that is started
with \fBSTARLING_KEY\fR hands it to its peers, and passes the others over.
.SH EXIT STATUS
.TP
0
It is done.
.TP
1
The run failed.
.TP
2
What was given is wrong: a flag, a file, a variable. One sentence on standard error says what, where, and what
would be right.
.SH SEE ALSO
The folders doc and experiments beside the program's other files: how it works, and ready experiments.
)";
  return text;
}

}  // namespace starling::cli
