-- The embedded forge's rows (FRG-020 … FRG-033). Times are text as GitHub writes them, `2026-12-01T10:00:00Z`, in UTC.
-- A pull request is a row of issues with is_pull = 1 and one row of pulls. Booleans are 0 and 1.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE users (
  id INTEGER PRIMARY KEY,
  login TEXT NOT NULL COLLATE NOCASE UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('User', 'Bot')),
  name TEXT,
  email TEXT NOT NULL,
  site_admin INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE tokens (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  hash TEXT NOT NULL UNIQUE, -- SHA-256 of the token, which has 160 random bits
  scopes TEXT NOT NULL DEFAULT 'repo',
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE repos (
  id INTEGER PRIMARY KEY,
  owner_id INTEGER NOT NULL REFERENCES users,
  name TEXT NOT NULL COLLATE NOCASE,
  description TEXT,
  private INTEGER NOT NULL DEFAULT 0,
  archived INTEGER NOT NULL DEFAULT 0,
  default_branch TEXT NOT NULL,
  allow_merge_commit INTEGER NOT NULL DEFAULT 1,
  allow_squash_merge INTEGER NOT NULL DEFAULT 1,
  allow_rebase_merge INTEGER NOT NULL DEFAULT 1,
  allow_auto_merge INTEGER NOT NULL DEFAULT 0,
  allow_update_branch INTEGER NOT NULL DEFAULT 0,
  delete_branch_on_merge INTEGER NOT NULL DEFAULT 0,
  next_issue INTEGER NOT NULL DEFAULT 1, -- the next number, shared by issues and pull requests
  next_milestone INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  pushed_at TEXT NOT NULL,
  UNIQUE (owner_id, name)
) STRICT;

CREATE TABLE roles (
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('read', 'triage', 'write', 'maintain', 'admin')),
  PRIMARY KEY (repo_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE labels (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  name TEXT NOT NULL COLLATE NOCASE,
  color TEXT NOT NULL,
  description TEXT,
  is_default INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (repo_id, name)
) STRICT;

CREATE TABLE milestones (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  number INTEGER NOT NULL,
  title TEXT NOT NULL,
  description TEXT,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
  due_on TEXT,
  creator_id INTEGER NOT NULL REFERENCES users,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  closed_at TEXT,
  UNIQUE (repo_id, number),
  UNIQUE (repo_id, title)
) STRICT;

CREATE TABLE issues (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  number INTEGER NOT NULL,
  is_pull INTEGER NOT NULL DEFAULT 0,
  title TEXT NOT NULL,
  body TEXT,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')), -- a merged pull request is closed
  state_reason TEXT, -- completed, not_planned, reopened
  author_id INTEGER NOT NULL REFERENCES users,
  milestone_id INTEGER REFERENCES milestones ON DELETE SET NULL,
  locked INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  closed_at TEXT,
  closed_by_id INTEGER REFERENCES users,
  edited_at TEXT, -- of title or body
  editor_id INTEGER REFERENCES users,
  UNIQUE (repo_id, number)
) STRICT;
CREATE INDEX issues_open ON issues (repo_id, state, is_pull, number);
CREATE INDEX issues_updated ON issues (repo_id, updated_at);
CREATE INDEX issues_milestone ON issues (milestone_id) WHERE milestone_id IS NOT NULL;

CREATE TABLE pulls (
  issue_id INTEGER PRIMARY KEY REFERENCES issues ON DELETE CASCADE,
  head_repo_id INTEGER NOT NULL REFERENCES repos,
  head_ref TEXT NOT NULL, -- a branch's name, without refs/heads/
  head_sha TEXT NOT NULL,
  base_ref TEXT NOT NULL,
  base_sha TEXT NOT NULL, -- the base's tip while open; frozen at the merge
  draft INTEGER NOT NULL DEFAULT 0,
  merged INTEGER NOT NULL DEFAULT 0,
  merged_at TEXT,
  merged_by_id INTEGER REFERENCES users,
  merge_sha TEXT, -- the commit that the merge put on the base branch
  maintainer_can_modify INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX pulls_head ON pulls (head_repo_id, head_ref);
CREATE INDEX pulls_head_sha ON pulls (head_sha);
CREATE INDEX pulls_base ON pulls (base_ref);

CREATE TABLE issue_labels (
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  label_id INTEGER NOT NULL REFERENCES labels ON DELETE CASCADE,
  PRIMARY KEY (issue_id, label_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX issue_labels_label ON issue_labels (label_id, issue_id);

CREATE TABLE assignees (
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  PRIMARY KEY (issue_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE review_requests (
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  created_at TEXT NOT NULL,
  PRIMARY KEY (issue_id, user_id)
) STRICT, WITHOUT ROWID;

-- The timeline: GitHub's event names (labeled, unlabeled, closed, reopened, renamed, milestoned, demilestoned, assigned,
-- unassigned, merged, referenced, head_ref_deleted, head_ref_restored, head_ref_force_pushed, base_ref_changed,
-- ready_for_review, convert_to_draft, review_requested, review_request_removed, review_dismissed, …).
CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  actor_id INTEGER REFERENCES users,
  kind TEXT NOT NULL,
  commit_sha TEXT,
  data TEXT NOT NULL DEFAULT '{}', -- JSON: {"label": {"name", "color"}}, {"rename": {"from", "to"}}, {"milestone": {"title"}}, …
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX events_issue ON events (issue_id, id);

CREATE TABLE comments (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  author_id INTEGER NOT NULL REFERENCES users,
  body TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  edited_at TEXT,
  editor_id INTEGER REFERENCES users
) STRICT;
CREATE INDEX comments_issue ON comments (issue_id, id);
CREATE INDEX comments_repo ON comments (repo_id, updated_at);

-- subject_kind: issue (also of pull requests), comment, review_comment
CREATE TABLE reactions (
  id INTEGER PRIMARY KEY,
  subject_kind TEXT NOT NULL,
  subject_id INTEGER NOT NULL,
  user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  content TEXT NOT NULL, -- +1, -1, laugh, confused, heart, hooray, rocket, eyes
  created_at TEXT NOT NULL,
  UNIQUE (subject_kind, subject_id, user_id, content)
) STRICT;

CREATE TABLE reviews (
  id INTEGER PRIMARY KEY,
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  author_id INTEGER NOT NULL REFERENCES users,
  state TEXT NOT NULL CHECK (state IN ('PENDING', 'COMMENTED', 'APPROVED', 'CHANGES_REQUESTED', 'DISMISSED')),
  body TEXT NOT NULL DEFAULT '',
  commit_sha TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  submitted_at TEXT -- NULL while PENDING
) STRICT;
CREATE INDEX reviews_issue ON reviews (issue_id, id);

CREATE TABLE threads (
  id INTEGER PRIMARY KEY,
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  path TEXT NOT NULL,
  subject_type TEXT NOT NULL DEFAULT 'line', -- line, file
  line INTEGER, -- at the present head; NULL where outdated
  start_line INTEGER,
  original_line INTEGER,
  original_start_line INTEGER,
  side TEXT NOT NULL DEFAULT 'RIGHT',
  start_side TEXT,
  original_sha TEXT NOT NULL,
  diff_hunk TEXT NOT NULL DEFAULT '',
  outdated INTEGER NOT NULL DEFAULT 0,
  resolved INTEGER NOT NULL DEFAULT 0,
  resolved_by_id INTEGER REFERENCES users
) STRICT;
CREATE INDEX threads_issue ON threads (issue_id, id);

CREATE TABLE review_comments (
  id INTEGER PRIMARY KEY,
  issue_id INTEGER NOT NULL REFERENCES issues ON DELETE CASCADE,
  thread_id INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  review_id INTEGER NOT NULL REFERENCES reviews ON DELETE CASCADE,
  in_reply_to_id INTEGER, -- the thread's first comment; NULL for that one itself
  author_id INTEGER NOT NULL REFERENCES users,
  body TEXT NOT NULL,
  commit_sha TEXT NOT NULL, -- the head when it was written
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  edited_at TEXT
) STRICT;
CREATE INDEX review_comments_issue ON review_comments (issue_id, id);
CREATE INDEX review_comments_thread ON review_comments (thread_id, id);

CREATE TABLE statuses (
  id INTEGER PRIMARY KEY, -- the newest id per (sha, context) is the one that counts
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  sha TEXT NOT NULL,
  context TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('error', 'failure', 'pending', 'success')),
  description TEXT,
  target_url TEXT,
  creator_id INTEGER NOT NULL REFERENCES users,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX statuses_sha ON statuses (repo_id, sha, context, id);

CREATE TABLE apps (
  id INTEGER PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  owner_id INTEGER NOT NULL REFERENCES users,
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE check_suites (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  app_id INTEGER NOT NULL REFERENCES apps,
  sha TEXT NOT NULL,
  branch TEXT,
  status TEXT NOT NULL DEFAULT 'queued', -- derived from the runs whenever one changes
  conclusion TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (repo_id, sha, app_id)
) STRICT;

CREATE TABLE check_runs (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  suite_id INTEGER NOT NULL REFERENCES check_suites ON DELETE CASCADE,
  sha TEXT NOT NULL,
  name TEXT NOT NULL,
  status TEXT NOT NULL, -- queued, in_progress, completed, waiting, requested, pending
  conclusion TEXT, -- success, failure, neutral, cancelled, skipped, timed_out, action_required, stale
  details_url TEXT,
  external_id TEXT NOT NULL DEFAULT '',
  title TEXT,
  summary TEXT,
  text TEXT,
  annotations TEXT NOT NULL DEFAULT '[]', -- JSON, GitHub's annotation objects
  started_at TEXT,
  completed_at TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX check_runs_sha ON check_runs (repo_id, sha, name, id);
CREATE INDEX check_runs_suite ON check_runs (suite_id, id);

CREATE TABLE protections (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  branch TEXT NOT NULL, -- an exact name
  checks TEXT, -- JSON list of contexts; NULL: no checks are required
  strict INTEGER NOT NULL DEFAULT 0,
  reviews INTEGER, -- required approvals, 0 and more; NULL: no review is required
  dismiss_stale INTEGER NOT NULL DEFAULT 0,
  code_owners INTEGER NOT NULL DEFAULT 0,
  enforce_admins INTEGER NOT NULL DEFAULT 0,
  conversations INTEGER NOT NULL DEFAULT 0, -- all threads must be resolved
  linear INTEGER NOT NULL DEFAULT 0,
  allow_force INTEGER NOT NULL DEFAULT 0,
  allow_delete INTEGER NOT NULL DEFAULT 0,
  UNIQUE (repo_id, branch)
) STRICT;

CREATE TABLE hooks (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  url TEXT NOT NULL,
  secret TEXT,
  content_type TEXT NOT NULL DEFAULT 'json',
  insecure_ssl TEXT NOT NULL DEFAULT '0',
  events TEXT NOT NULL, -- JSON list of event names
  active INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE deliveries (
  id INTEGER PRIMARY KEY,
  hook_id INTEGER NOT NULL REFERENCES hooks ON DELETE CASCADE,
  guid TEXT NOT NULL,
  event TEXT NOT NULL,
  action TEXT,
  payload TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued', -- queued, sending, sent (an answer came, of any status), failed (none came)
  redelivery INTEGER NOT NULL DEFAULT 0,
  status_code INTEGER,
  response TEXT,
  duration REAL,
  created_at TEXT NOT NULL,
  delivered_at TEXT
) STRICT;
CREATE INDEX deliveries_hook ON deliveries (hook_id, id);
CREATE INDEX deliveries_queue ON deliveries (id) WHERE state IN ('queued', 'sending');

-- The journal (FRG-033): written before refs move, deleted by the transaction that applies what the move means.
CREATE TABLE intents (
  id INTEGER PRIMARY KEY,
  repo_id INTEGER NOT NULL REFERENCES repos ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users,
  kind TEXT NOT NULL, -- push, merge
  updates TEXT NOT NULL, -- JSON list of [ref, old sha, new sha]; forty zeros stand for "no such ref"
  data TEXT NOT NULL DEFAULT '{}', -- JSON: what a merge must write
  created_at TEXT NOT NULL
) STRICT;
