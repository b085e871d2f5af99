#!/usr/bin/python3
"""Graphs in the files that other programs write: graph_files_test.py PROGRAM [--count N] [--seed N]

PROGRAM is build/release/starling. networkx (of Debian's python3-networkx) makes N random graphs (default 40) and writes
them in its forms, a few for each graph, so that every form has its turn: lists of links with and without attributes,
GraphML with whole weights, fractions and both, tables of pandas, and the table that Gephi exports. `starling topology
show` must have networkx's peers, links, direction and weights. Forms that are no list of links must be refused in one
line. The seed follows from the commit. The last line is "N passed, N failed".
"""
import csv
import json
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import Skipped, require, seed_of_commit  # noqa: E402

try:
    import networkx
    import pandas  # noqa: F401  networkx's tables need it
except ImportError as missing:
    networkx = None
    MISSING = str(missing)

FORMS_OF_A_GRAPH = 3


def number(flag, default):
    return int(sys.argv[sys.argv.index(flag) + 1]) if flag in sys.argv else default


# ---- forms; each writes a graph and returns its nodes in the order of the file ----

def in_order_of_links(graph):
    return list(dict.fromkeys(node for link in graph.edges for node in link))


def after_direction(graph, path, write, mark=b""):
    """An edge list of a directed graph begins with a line of its own, which networkx does not write."""
    with open(path, "wb") as file:
        file.write(mark)
        if graph.is_directed():
            file.write(b"directed\n")
        write(file)
    return in_order_of_links(graph)


def edge_list(data, delimiter=" "):
    return lambda graph, path: after_direction(
        graph, path, lambda file: networkx.write_edgelist(graph, file, data=data, delimiter=delimiter))


def weighted(delimiter):
    return lambda graph, path: after_direction(
        graph, path, lambda file: networkx.write_weighted_edgelist(graph, file, delimiter=delimiter))


def pandas_table(separator, index, mark=b""):
    def write(graph, path):
        table = networkx.to_pandas_edgelist(graph)
        text = table.to_csv(sep=separator, index=index)
        return after_direction(graph, path, lambda file: file.write(text.encode("utf-8")), mark)
    return write


def gephi(separator):
    def write(graph, path):
        columns = ["Source", "Target", "Type", "Id", "Label", "Weight"]
        random.Random(len(graph)).shuffle(columns)
        with open(path, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, delimiter=separator)
            rows.writerow(columns)
            for number_of_link, (a, b, data) in enumerate(graph.edges(data=True)):
                row = {"Source": a, "Target": b, "Type": "Directed" if graph.is_directed() else "Undirected",
                       "Id": number_of_link, "Label": "", "Weight": data.get("weight", 1.0)}
                rows.writerow([row[column] for column in columns])
        return in_order_of_links(graph)
    return write


def graphml(**options):
    def write(graph, path):
        networkx.write_graphml_xml(graph, path, **options)
        return list(graph.nodes)
    return write


FORMS = {
    "edges.txt": (edge_list(True), True), "edges-plain.txt": (edge_list(False), False),
    "edges-comma.txt": (edge_list(True, ","), True), "edges-weight.txt": (edge_list(["weight"]), True),
    "blank.txt": (weighted(" "), True), "comma.csv": (weighted(","), True), "tab.tsv": (weighted("\t"), True),
    "semicolon.txt": (weighted(";"), True), "comma-blank.txt": (weighted(", "), True),
    "types.graphml": (graphml(), True), "one-type.graphml": (graphml(infer_numeric_types=True), True),
    "names.graphml": (graphml(named_key_ids=True), True),
    "pandas.csv": (pandas_table(",", False), True), "pandas-index.csv": (pandas_table(",", True), True),
    "pandas-mark.csv": (pandas_table(";", False, b"\xef\xbb\xbf"), True), "pandas.tsv": (pandas_table("\t", True), True),
    "gephi.csv": (gephi(","), True), "gephi-semicolon.csv": (gephi(";"), True),
}


class GraphFiles(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        self.seed = number("--seed", seed_of_commit())
        self.random = random.Random(self.seed)

    def run(self):
        if networkx is None:
            self.case("graphs of networkx", self.skipped)
            return
        print(f"   seed {self.seed}, networkx {networkx.__version__}")
        names, at = list(FORMS), 0
        for nth in range(number("--count", 40)):
            graph = self.graph()
            chosen = [names[(at + k) % len(names)] for k in range(FORMS_OF_A_GRAPH)]
            at += FORMS_OF_A_GRAPH
            self.case(f"graph {nth} as {', '.join(chosen)}", lambda: [self.check(graph, name, name == chosen[0]) for name in chosen])
        self.case("a form that is no list of links is refused in one line", self.refused)

    def skipped(self):
        raise Skipped(MISSING)

    def graph(self):
        """Connected (directed: strongly), with numbers or names, and weights that are whole, not, or both."""
        n, directed = self.random.randint(2, 14), self.random.random() < 0.4
        nodes = list(range(n))
        if self.random.random() < 0.5:
            nodes = [f"{self.random.choice(['rank', 'Zürich', 'x.'])}-{i}" for i in nodes]
        self.random.shuffle(nodes)
        graph = (networkx.DiGraph if directed else networkx.Graph)()
        graph.add_nodes_from(nodes)
        weigh = self.random.choice([lambda: None, lambda: self.random.randint(1, 9),
                                    lambda: self.random.uniform(0.01, 100),
                                    lambda: self.random.choice([1, 3, 2.5, 0.125])])
        links = list(zip(nodes, nodes[1:])) + ([(nodes[-1], nodes[0])] if directed else [])
        links += [tuple(self.random.sample(nodes, 2)) for _ in range(self.random.randint(0, 2 * n))]
        for a, b in links:
            weight = weigh()
            graph.add_edge(a, b, **({} if weight is None else {"weight": weight}))
            if self.random.random() < 0.2:
                graph[a][b]["color"] = self.random.choice(["red", "#00ff00", "a, b; {c}"])
        return graph

    def show(self, path, *words):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("STARLING_")}
        return subprocess.run([self.program, "topology", "show", "file:" + path, *words], text=True, capture_output=True, env=plain)

    def check(self, graph, name, with_figures):
        write, has_weights = FORMS[name]
        path = os.path.join(self.folder, name)
        order = write(graph, path)
        shown = self.show(path, "--format", "edges")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        require(shown.returncode == 0, f"{name}: {shown.stderr}\n{text}")
        self.compare(graph, order, has_weights, shown.stdout, f"{name}:\n{text}")
        if not with_figures:
            return
        figures = json.loads(self.show(path, "--json").stdout)
        found = (figures["peers"], figures["edges"], figures["directed"])
        expected = (len(graph), graph.number_of_edges(), graph.is_directed())
        require(found == expected, f"{name}: {found}, expected {expected}\n{text}")
        said = [f"{len(graph)} peers", f"{graph.number_of_edges()} link", "directed" if graph.is_directed() else "undirected"]
        require(len(shown.stderr.splitlines()) == 1 and all(part in shown.stderr for part in said),
                f"{name}: the summary is {shown.stderr!r}")

    def compare(self, graph, order, has_weights, shown, what):
        numbered = all(isinstance(node, int) for node in graph)
        place = {node: node if numbered else i for i, node in enumerate(order)}
        expected = {}
        for a, b, data in graph.edges(data=True):
            ends = (place[a], place[b])
            expected[ends if graph.is_directed() else tuple(sorted(ends))] = data.get("weight", 1) if has_weights else 1
        found = {}
        for line in shown.splitlines():
            words = line.split("#")[0].split()
            if words not in ([], ["directed"]):
                found[int(words[0]), int(words[1])] = float(words[2]) if len(words) > 2 else 1.0
        require(found.keys() == expected.keys(), f"links {sorted(found)}, expected {sorted(expected)} in {what}")
        means = [sum(weights.values()) / len(weights) for weights in (found, expected)]
        for ends, weight in expected.items():
            require(abs(found[ends] / means[0] - weight / means[1]) < 1e-9 * weight / means[1],
                    f"the weight of {ends} is {found[ends] / means[0]}, expected {weight / means[1]} in {what}")

    def refused(self):
        graph = networkx.relabel_nodes(networkx.wheel_graph(6), {0: "hub"})
        triangle = networkx.complete_graph(3, networkx.DiGraph)

        def adjacency(path):
            networkx.to_pandas_adjacency(graph).to_csv(path)

        for what, write, said in [
                ("adjacency list", lambda path: networkx.write_adjlist(graph, path), "write_adjlist"),
                ("adjacency list of three", lambda path: networkx.write_adjlist(triangle, path), "write_adjlist"),
                ("adjacency list in lines", lambda path: networkx.write_multiline_adjlist(graph, path), "write_adjlist"),
                ("GML", lambda path: networkx.write_gml(graph, path), ""), ("Pajek", lambda path: networkx.write_pajek(graph, path), ""),
                ("GEXF", lambda path: networkx.write_gexf(graph, path), "expected GraphML"),
                ("graph6", lambda path: networkx.write_graph6(triangle.to_undirected(), path), ""),
                ("matrix", adjacency, "")]:
            path = os.path.join(self.folder, "other")
            write(path)
            shown = self.show(path)
            require(shown.returncode == 2 and len(shown.stderr.splitlines()) == 1 and said in shown.stderr,
                    f"{what}: exit code {shown.returncode}, {shown.stderr}")


if __name__ == "__main__":
    sys.exit(suite.main(GraphFiles))
