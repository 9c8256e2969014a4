"""The paper's experiments: settings as data, a runner that can be killed, statistics, tables, figures and a page."""
