"""Judges that we did not write: PyGithub and git over a served forge (FRG-031)."""

from __future__ import annotations

import github
import pytest

from droveway.localforge import serve_in_thread

from .world import World


@pytest.mark.req("FRG-031")
def test_pygithub_does_a_round_of_work(world: World) -> None:
    with serve_in_thread(world.forge) as url:
        bot = github.Github(
            base_url=url,
            auth=github.Auth.Token(world.bot_token),
            retry=None,
            seconds_between_requests=0,
            seconds_between_writes=0,
        )
        owner = github.Github(
            base_url=url,
            auth=github.Auth.Token(world.owner_token),
            retry=None,
            seconds_between_requests=0,
            seconds_between_writes=0,
        )
        assert bot.get_user().login == "herd-bot"
        repo = bot.get_repo("owner/road")
        for number in range(45):
            repo.create_label(f"l{number}", "ededed")
        assert repo.get_labels().totalCount == 54
        assert len(list(repo.get_labels())) == 54  # over two pages, whose links it checks
        milestone = repo.create_milestone("Batch", description="d")
        issue = repo.create_issue("Title", body="Body", labels=["l1"], milestone=milestone)
        issue.create_comment("hello").create_reaction("eyes")
        issue.set_labels("l2", "l3")
        assert {label.name for label in issue.get_labels()} == {"l2", "l3"}
        assert [event.event for event in issue.get_events()][-1] == "labeled"
        pull = repo.create_pull(title="P", body=f"fixes #{issue.number}", head="clean", base="main")
        assert pull.changed_files == 1
        assert [file.filename for file in pull.get_files()] == ["new.txt"]
        repo.get_commit(pull.head.sha).create_status("success", context="ci")
        assert repo.get_commit(pull.head.sha).get_combined_status().state == "success"
        run = repo.create_check_run("test", pull.head.sha, status="in_progress")
        run.edit(status="completed", conclusion="success")
        owner.get_repo("owner/road").get_pull(pull.number).create_review(body="fine", event="APPROVE")
        assert [review.state for review in pull.get_reviews()] == ["APPROVED"]
        ref = repo.create_git_ref("refs/heads/side", pull.base.sha)
        ref.delete()
        assert repo.get_contents("README.md").decoded_content == b"two\n"
        assert repo.get_collaborator_permission("owner") == "admin"
        assert repo.get_branch("main").commit.sha == pull.base.sha
        assert repo.compare("main", "clean").ahead_by == 1
        repo.get_pull(pull.number)
        assert repo.get_pull(pull.number).mergeable is True
        merged = pull.merge(merge_method="squash", sha=pull.head.sha)
        assert merged.merged
        assert repo.get_issue(issue.number).state == "closed"
        assert bot.search_issues("repo:owner/road is:pr is:merged").totalCount == 1
        with pytest.raises(github.UnknownObjectException):
            repo.get_issue(99)
        with pytest.raises(github.GithubException) as refused:
            repo.create_label("l1", "ededed")
        assert refused.value.data["errors"][0]["code"] == "already_exists"
