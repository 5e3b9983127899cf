"""The CI recipes are run as far as that is possible without their servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def recipe(name: str):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A folder with a spec where the recipes expect it, a ledger, and a program `dpcalc`."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "privacy").mkdir()
    shutil.copy(ROOT / "examples" / "dp-sgd.yaml", folder / "privacy" / "release.yaml")
    program = folder / "bin" / "dpcalc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dpcalc "$@"\n')
    program.chmod(0o755)
    limit = ("--epsilon", "5", "--delta", "1e-5", "--plan", "privacy/release.yaml")
    command = [str(program), "ledger", "init", "team.db", "--budget", "census", *limit]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return folder


@pytest.fixture
def workplace(prepared, tmp_path, monkeypatch) -> Path:
    """A copy of it, with `dpcalc` on the path."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bash(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def action_step(**inputs: str) -> subprocess.CompletedProcess[str]:
    """The action's last step, with its inputs put into its environment as the runner does."""
    action = recipe("action.yml")
    given = {name: str(settings.get("default", "")) for name, settings in action["inputs"].items()} | inputs
    step = action["runs"]["steps"][-1]
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: given[found.group(1)], text)
        for name, text in step["env"].items()
    }
    return bash(step["run"], GITHUB_STEP_SUMMARY="summary.md", GITHUB_RUN_ID="7", **environment)


def test_the_action_checks_a_limit(workplace) -> None:
    assert action_step(spec="privacy/release.yaml", **{"max-epsilon": "3"}).returncode == 0
    over = action_step(spec="privacy/release.yaml", **{"max-epsilon": "1"})
    assert over.returncode == 1
    assert "ε" in (workplace / "summary.md").read_text()


def test_the_action_charges_a_ledger_once(workplace) -> None:
    inputs = {"spec": "privacy/release.yaml", "ledger": "team.db", "budget": "census"}
    assert action_step(**inputs, **{"dry-run": "true"}).returncode == 0
    for _ in range(2):
        done = action_step(**inputs, key="release-1")
        assert done.returncode == 0, done.stderr
    log = bash("dpcalc ledger log team.db census -f csv").stdout
    assert log.count("release-1") == 1


def test_the_action_installs_its_own_checkout_and_takes_no_input_into_a_script() -> None:
    action = recipe("action.yml")
    install = action["runs"]["steps"][1]["run"]
    (extra,) = re.findall(r'"\$\{GITHUB_ACTION_PATH\}\[(\w+)\]"', install)
    assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert not any("${{" in step.get("run", "") for step in action["runs"]["steps"])


def test_the_workflow_gives_the_action_inputs_that_it_has() -> None:
    known = recipe("action.yml")["inputs"]
    readme = re.search(r"^```yaml\n(on: .*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert readme is not None
    workflows = (recipe("examples/budget-check.yml"), yaml.safe_load(readme[1]))
    for job in (job for workflow in workflows for job in workflow["jobs"].values()):
        given = next(step["with"] for step in job["steps"] if "with" in step)
        assert set(given) <= set(known)
        assert {name for name, settings in known.items() if settings.get("required")} <= set(given)


def test_the_gitlab_jobs_run(workplace) -> None:
    jobs = recipe("examples/gitlab-ci.yml")
    for name in ("privacy-check", "privacy-charge"):
        for line in jobs[name]["script"]:
            done = bash(line, PRIVACY_LEDGER="team.db", CI_COMMIT_SHA="abc", GITLAB_USER_LOGIN="ann")
            assert done.returncode == 0, done.stderr
    assert "<testsuite" in (workplace / "privacy.xml").read_text()
    assert "release-abc" in bash("dpcalc ledger log team.db").stdout


def test_the_hook_fails_when_a_spec_is_over_its_budget(workplace) -> None:
    (hook,) = recipe(".pre-commit-hooks.yaml")
    assert re.search(hook["files"], "privacy/release.yaml")
    assert not re.search(hook["files"], "src/privacy.py")
    assert bash(f"{hook['entry']} --max-epsilon 3 privacy/release.yaml").returncode == 0
    assert bash(f"{hook['entry']} --max-epsilon 1 privacy/release.yaml").returncode == 1
