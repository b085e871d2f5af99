// starling man: the manual page.
#include "base/program.h"
#include "cli/shell/help.h"

namespace starling::cli {
namespace {

// Escapes text for roff: no line begins with a request, and a hyphen is a minus sign, which can be copied.
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
  return ".TP\n" + term + "\n" + roff(help_of(flag)) + "\n";
}

std::string command_entry(const Command& command) {
  std::string text = ".SS starling " + roff(command.path) + "\n";
  const std::string name = "starling " + command.path;
  text += roff(command.summary) + ".\n.PP\n\\fB" + roff(name) + "\\fR" +
          roff(usage_of(command).substr(name.size())) + "\n";
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

std::string manual_page(const std::vector<Command>& commands) {
  std::string text = ".TH STARLING 1 \"\" \"starling " + version() + "\" \"User Commands\"\n";
  text += ".SH NAME\nstarling \\- train one neural network on many peers that gossip\n";
  text += ".SH SYNOPSIS\n\\fBstarling\\fR \\fICOMMAND\\fR [\\fIFLAG\\fR...]\n";
  text += R"(.SH DESCRIPTION
Every peer trains its own copy of a model on its own hardware, and from time to time averages its parameters
with those of one neighbor over TCP. Training needs no master, no parameter server, and no barrier. Peers can
join, leave, slow down and crash while the others continue to train.
.PP
\fBstarling peer\fR runs one peer; \fBstarling swarm\fR starts several on this machine;
\fBstarling simulate\fR does the same in virtual time.
)";
  text += ".SH COMMANDS\n";
  for (const Command& command : commands)
    if (!command.hidden) text += command_entry(command);
  text += ".SH FLAGS OF EVERY COMMAND\n";
  text += flag_entry({"--help", "", "describe the command, with an example; --help all lists every flag"});
  for (const Flag& flag : shared_flags()) text += flag_entry(flag);
  text += R"(.SH ENVIRONMENT
.TP
\fBSTARLING_DATA\fR
The folder of the data sets that are not built in.
.TP
\fBSTARLING_AT\fR
The peer that \fBstarling status\fR and others ask if \fB\-\-at\fR is not given.
.TP
\fBSTARLING_CUDA_MODULE\fR
The file of the CUDA back end, if it is not beside the program or in ../lib/starling.
.TP
\fBSTARLING_LOG_FORMAT\fR, \fBSTARLING_LOG_LEVEL\fR
Like \fB\-\-log\-format\fR and \fB\-\-log\-level\fR. Peers that a command starts inherit them.
.TP
\fBSTARLING_BATCH_SIZE\fR, \fBSTARLING_RULE\fR and so on
Each flag of a run has a variable: in capitals, with underscores. Flags override variables, and variables
override the experiment file. The variable of \fB\-\-data\fR is \fBSTARLING_DATA_SOURCE\fR.
.TP
\fBSTARLING_LISTEN\fR, \fBSTARLING_HTTP\fR, \fBSTARLING_KEY\fR and so on
The variables of a peer's own flags. These can also be set under [daemon] in the file that \fB\-\-config\fR
names: listen = "0.0.0.0:7100". \fBSTARLING_JOIN\fR can name several peers, separated by commas. \fBstarling
swarm\fR passes \fBSTARLING_KEY\fR to its peers and ignores the others.
.SH EXIT STATUS
.TP
0
Success.
.TP
1
The run failed.
.TP
2
A flag, a file or a variable is wrong. One sentence on standard error says what, where, and what is expected.
.SH SEE ALSO
The folders doc and experiments beside the program's other files: documentation and ready experiments.
)";
  return text;
}

}  // namespace starling::cli
