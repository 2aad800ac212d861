CREATE TABLE agui_entries (
	owner TEXT NOT NULL,
	line TEXT NOT NULL,
	number INTEGER NOT NULL,
	lease BIGINT NOT NULL,
	write_id TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (owner, line, number)
);
CREATE TABLE agui_lines (
	owner TEXT NOT NULL,
	line TEXT NOT NULL,
	parent TEXT,
	shared_count INTEGER NOT NULL,
	PRIMARY KEY (owner, line)
);
CREATE INDEX agui_lines_by_parent ON agui_lines (owner, parent);
CREATE TABLE agui_processes (
	process_id TEXT NOT NULL,
	alive_until BIGINT NOT NULL,
	PRIMARY KEY (process_id)
);
CREATE TABLE agui_run_events (
	row_id TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	position INTEGER NOT NULL,
	event_count INTEGER NOT NULL,
	frames BLOB NOT NULL,
	beginning TEXT,
	is_end BOOLEAN NOT NULL,
	PRIMARY KEY (row_id, attempt, position)
);
CREATE TABLE agui_runs (
	row_id TEXT NOT NULL,
	owner TEXT NOT NULL,
	thread_id TEXT NOT NULL,
	run_id TEXT NOT NULL,
	agent TEXT NOT NULL,
	stored_request TEXT NOT NULL,
	write_id TEXT NOT NULL,
	status TEXT NOT NULL,
	process_id TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	is_stop_wanted BOOLEAN NOT NULL,
	begun_at BIGINT NOT NULL,
	ended_at BIGINT,
	event_count INTEGER NOT NULL,
	interrupts TEXT NOT NULL,
	answers TEXT NOT NULL,
	is_notified BOOLEAN NOT NULL,
	left_input TEXT,
	threadless_checkpoint TEXT,
	threadless_position INTEGER NOT NULL,
	has_begun BOOLEAN NOT NULL,
	PRIMARY KEY (row_id)
);
CREATE INDEX agui_runs_by_thread ON agui_runs (owner, thread_id, begun_at);
CREATE INDEX agui_runs_by_time ON agui_runs (owner, begun_at, row_id);
CREATE INDEX agui_runs_over ON agui_runs (ended_at) WHERE (status NOT IN ('running', 'waiting'));
CREATE UNIQUE INDEX agui_runs_running ON agui_runs (owner, thread_id) WHERE status = 'running';
CREATE INDEX agui_runs_unnotified ON agui_runs (row_id) WHERE status = 'waiting' AND is_notified IS 0;
CREATE INDEX agui_runs_waiting ON agui_runs (ended_at) WHERE status = 'waiting';
CREATE INDEX agui_runs_waiting_by_time ON agui_runs (owner, begun_at, row_id) WHERE status = 'waiting';
CREATE TABLE agui_segments (
	owner TEXT NOT NULL,
	thread_id TEXT NOT NULL,
	link TEXT NOT NULL,
	parent TEXT,
	body TEXT NOT NULL,
	PRIMARY KEY (owner, thread_id, link)
);
CREATE TABLE agui_threads (
	owner TEXT NOT NULL,
	thread_id TEXT NOT NULL,
	line TEXT NOT NULL,
	entry_count INTEGER NOT NULL,
	lease BIGINT NOT NULL,
	leased_until BIGINT NOT NULL,
	process_id TEXT NOT NULL,
	taking TEXT NOT NULL,
	title TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	message_count INTEGER NOT NULL,
	usage TEXT NOT NULL,
	PRIMARY KEY (owner, thread_id)
);
CREATE INDEX agui_threads_by_time ON agui_threads (owner, updated_at, thread_id);
CREATE TABLE agui_versions (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
