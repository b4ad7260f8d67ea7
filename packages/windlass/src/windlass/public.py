"""The public names of the core for packages beside it, each with a sentence.

    from windlass.public import UsageError, tool

A package beside the core imports these, and what `windlass` itself exports, and nothing else of it.
A name is loaded from its home when it is asked for, so that this module takes no time.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    # fmt: off
    # Return the task, checked, and the registry of the tools it may use.
    from windlass.api.loading import load_program as load_program
    # What is the same for all inner tasks, and sent once: the user's tools and providers.
    from windlass.api.opening import SharedObjects as SharedObjects
    # Raise TrustNeeded or StoreError for a store that somebody else may have put there.
    from windlass.api.opening import check_store as check_store
    # Read the settings that hold in `folder` (default: the current one), and find providers.
    from windlass.api.opening import open_resources as open_resources
    # Return the store that the settings name; `existing`: raise UsageError where there is none.
    from windlass.api.opening import open_store as open_store
    # The price of an output token in fresh input tokens.
    from windlass.caching.prices import OUTPUT_PRICE as OUTPUT_PRICE
    # What a model's input costs with its prompt cache, in units of a fresh input token.
    from windlass.caching.prices import Prices as Prices
    # A user's own price of a model, in US dollars per million tokens, without tiers.
    from windlass.caching.rates import Override as Override
    # US dollars of one call; `tokens_in` includes the cached and the written ones.
    from windlass.caching.rates import cost as cost
    # Return a number of things, for people.
    from windlass.caching.rates import many as many
    # Return US dollars for people, with their sign first.
    from windlass.caching.rates import money as money
    # Within the context, and in tasks begun in it, `prices` override the table's.
    from windlass.caching.rates import override as override
    # Return the source of the price of `provider/model`, for people.
    from windlass.caching.rates import price_source as price_source
    # Return what input costs at `provider/model`, in units of a fresh token of it.
    from windlass.caching.rates import prices_of as prices_of
    # The rate of `provider/model`: the user's own, else the listed one; None: neither is.
    from windlass.caching.rates import rate as rate
    # A checked cascade, the tools it may use, and its sub-cascades.
    from windlass.cascade.ready import ReadyCascade as ReadyCascade
    # Commands under one word.
    from windlass.cli.app import CommandGroup as CommandGroup
    # Make a function the command of its name, or of `name`.
    from windlass.cli.app import command as command
    # Run the work on an event loop of its own, and return its result.
    from windlass.cli.ending import run_interruptibly as run_interruptibly
    # Return the settings of a command that only takes `--store`.
    from windlass.cli.named_store import read_settings as read_settings
    # Return the time, in seconds since 1970, that an option names: an ISO date in UTC, or an age.
    from windlass.cli.named_store import read_time as read_time
    # .
    from windlass.cli.options import Processes as Processes
    # The option `--store` of a command.
    from windlass.cli.options import StoreOption as StoreOption
    # Print a note on standard error.
    from windlass.cli.output import note as note
    # Where a command prints its answer.
    from windlass.cli.output import out as out
    # Print a value as JSON if the user asked for that (`--json`), and say whether they did.
    from windlass.cli.output import printed_as_json as printed_as_json
    # .
    from windlass.cli.output import progress as progress
    # US dollars as a cell; `no price` where they are not known.
    from windlass.cli.printed_tables import dollar_cell as dollar_cell
    # Print a table below its title; the columns with the heads `whole` are never folded.
    from windlass.cli.printed_tables import print_table as print_table
    # Discard what is still written to a standard stream: its reader went away.
    from windlass.cli.standard_streams import silence_stream as silence_stream
    # A conversation as it grows, and what each call sees of it.
    from windlass.context.context import Context as Context
    # A message or a tool in one of the forms.
    from windlass.context.lists import Chat as Chat
    # .
    from windlass.declared import Name as Name
    # Start the servers and make their tools known to the run.
    from windlass.engine.cascade import add_server_tools as add_server_tools
    # Return the MCP servers whose tools the cascade names, not started.
    from windlass.engine.cascade import needed_servers as needed_servers
    # Whom a run may ask, and within which limits; runs below it ask the same.
    from windlass.engine.cascade_run import Access as Access
    # A session that this process holds, and whether the store has it already.
    from windlass.engine.opening import OpenSession as OpenSession
    # Return a run of a checked cascade with everything in its hands, and nothing done yet.
    from windlass.engine.setup import prepare as prepare
    # A task that is to run, and what it is given.
    from windlass.engine.tasks.frame import Assignment as Assignment
    # The context of a task, without its own description and inputs.
    from windlass.engine.tasks.frame import Frame as Frame
    # The sources of tasks' context: the memory, and the sections made so far.
    from windlass.engine.tasks.frame import Material as Material
    # A task that finished: its path, how, the key of its output's body, and the tokens of that.
    from windlass.engine.tasks.job import Done as Done
    # A task file in hand.
    from windlass.engine.tasks.job import Job as Job
    # One input: what it is called, and its text, or the file (and the bytes of it) it is in.
    from windlass.engine.tasks.task_inputs import Given as Given
    # Return the task as a resumed session had finished it; None: it is to run.
    from windlass.engine.tasks.task_runner import finished_before as finished_before
    # Return one inner task, with its own state and its own part of the record.
    from windlass.engine.tasks.task_runner import run_one as run_one
    # The provider refused the request as malformed.
    from windlass.errors import BadRequest as BadRequest
    # A request does not fit the model's window: by our count before it is sent, else by theirs.
    from windlass.errors import ContextTooLong as ContextTooLong
    # The model's side failed: not reachable, not installed, or answered with an error.
    from windlass.errors import ProviderError as ProviderError
    # A session that somebody else runs, or perhaps runs: nobody else may until that has ended.
    from windlass.errors import SessionHeld as SessionHeld
    # The store could not be read or written: disk full, locked, damaged.
    from windlass.errors import StoreError as StoreError
    # A tool failed.
    from windlass.errors import ToolError as ToolError
    # Something the user wrote is wrong: a file, a flag, a key, a name.
    from windlass.errors import UsageError as UsageError
    # Root of every error that Windlass raises on purpose.
    from windlass.errors import WindlassError as WindlassError
    # A machine of a cluster was lost, or could not do its work.
    from windlass.errors import WorkerLost as WorkerLost
    # The end of a message about an unknown `name`: the nearest known name, then all of them.
    from windlass.errors import did_you_mean as did_you_mean
    # What a session decided: one type for each kind of decision, and for the messages it brought
    # in.
    from windlass.history import decisions as decisions
    # How values of the record become columns, and back.
    from windlass.history import packing as packing
    # What rows say besides their columns: a tagged union of small values, a type for each kind.
    from windlass.history import row_details as row_details
    # What the name of a history begins with that is a memory bank and no run of a cascade.
    from windlass.history.base import BANK as BANK
    # Rows that are said in a session: what a snowball carries on.
    from windlass.history.base import BORN as BORN
    # What is appended together: whole or not at all.
    from windlass.history.base import Batch as Batch
    # The name and the instructions of a phase that answers messages; nobody wrote them.
    from windlass.history.base import CHAT as CHAT
    # What one call saw.
    from windlass.history.base import CallRecord as CallRecord
    # Something that `verify` found.
    from windlass.history.base import Discrepancy as Discrepancy
    # There: the session that it was forked from.
    from windlass.history.base import FORKED_FROM as FORKED_FROM
    # Who runs a session, or did and was killed: a process (its number), and its machine.
    from windlass.history.base import Holder as Holder
    # What the newest run of a store is called, besides its name.
    from windlass.history.base import LATEST as LATEST
    # What a row of the record is.
    from windlass.history.base import NodeType as NodeType
    # Told what is read (`blobs`, `messages`, `sessions`), how many were, and how many there are.
    from windlass.history.base import OnProgress as OnProgress
    # How a phase ended, or the session.
    from windlass.history.base import Outcome as Outcome
    # In the definition that a session begins with: what a resumed run needs beside it.
    from windlass.history.base import RAN as RAN
    # Why a phase or session is `incomplete`: turns or attempts used up, a reply cut at its output
    # limit or where the model's window was full, an empty one, one that the model refused or the
    # provider held back, or another limit.
    from windlass.history.base import Reason as Reason
    # One row to append.
    from windlass.history.base import Row as Row
    # Seconds without a row after which nobody on another machine runs a session any more.
    from windlass.history.base import SILENT_S as SILENT_S
    # How sessions stand, as they are listed.
    from windlass.history.base import STATES as STATES
    # Which sessions are listed: those that fit every value given.
    from windlass.history.base import SessionFilter as SessionFilter
    # A session as `windlass sessions` lists it.
    from windlass.history.base import SessionInfo as SessionInfo
    # The first thing known of a session.
    from windlass.history.base import SessionStart as SessionStart
    # One message of a window, in its place.
    from windlass.history.base import ShownMessage as ShownMessage
    # How a session ended.
    from windlass.history.base import Status as Status
    # A place that keeps histories.
    from windlass.history.base import Store as Store
    # A row as it is read back.
    from windlass.history.base import StoredRow as StoredRow
    # Return a status for people, with the reason where it has one.
    from windlass.history.base import in_words as in_words
    # Rows read at a time: no reader holds a snapshot open while its caller thinks.
    from windlass.history.base_session import PORTION as PORTION
    # Return the card whose fields `values` are, in their order.
    from windlass.history.base_session import card_of as card_of
    # What stores do alike.
    from windlass.history.base_store import BaseStore as BaseStore
    # What the name of a blob looks like: a SHA-256 in hex.
    from windlass.history.blobs import BLOB_NAME as BLOB_NAME
    # Where blobs lie: each method does what it does in `Blobs`, which are those of a folder.
    from windlass.history.blobs import BlobPlace as BlobPlace
    # The blobs under `root` (`<store>/blobs`).
    from windlass.history.blobs import Blobs as Blobs
    # Return the bytes of a blob.
    from windlass.history.blobs import check_digest as check_digest
    # Where a visible name lies, in a folder that is there and no link.
    from windlass.history.blobs import visible_place as visible_place
    # The JSON of messages by their keys, of those whose key begins so; `most` of them at most.
    from windlass.history.bodies_at_once import bodies_beginning as bodies_beginning
    # The kinds of rows whose messages may have cards.
    from windlass.history.card_rows import NODES as NODES
    # Return all sub-cascades of these sessions, level by level, in the order in which they ran.
    from windlass.history.nesting import sessions_below as sessions_below
    # A batch as rows, by their table.
    from windlass.history.numbering import NumberedBatch as NumberedBatch
    # A batch with its bodies serialised: rows for their tables, bytes for the blobs.
    from windlass.history.numbering import PreparedBatch as PreparedBatch
    # Return the error for a reference that stands for another message.
    from windlass.history.numbering import reference_taken as reference_taken
    # What a plugin for a kind of store announces: the module that opens it.
    from windlass.history.places import StoreModule as StoreModule
    # Return the store of a store; `existing`: raise UsageError where there is none.
    from windlass.history.places import open_place as open_place
    # Places, each with the check that is about it.
    from windlass.history.proof import Checks as Checks
    # One reading of a store.
    from windlass.history.proof import StoreProof as StoreProof
    # Who holds which sessions, those under others among them.
    from windlass.history.session_locks import HeldSessions as HeldSessions
    # The locks of the sessions of the store in `store`, and who holds them on this machine.
    from windlass.history.session_locks import SessionLocks as SessionLocks
    # Return what a locked file says, and whether somebody holds it; ({}, False): there is none.
    from windlass.history.session_locks import look_at as look_at
    # The name of this machine, and behind a slash what tells it from others of that name.
    from windlass.history.session_locks import machine_name as machine_name
    # A store in `folder`, which is made where it is missing.
    from windlass.history.sqlite import SqliteStore as SqliteStore
    # Where a session calls a model: steps of one session are equal where the place is the same.
    from windlass.history.step import Step as Step
    # Return the folders of sessions that exist on this machine.
    from windlass.importing.agent_folders import agent_folders as agent_folders
    # Return the file of a session.
    from windlass.importing.agent_folders import find_agent_session as find_agent_session
    # The answers of all files of an import, so that each is counted once.
    from windlass.importing.base import Answers as Answers
    # Why an answer is left out that `Answers` has counted already.
    from windlass.importing.base import COUNTED as COUNTED
    # What reading a malformed record raises: it is counted and left out.
    from windlass.importing.base import MALFORMED as MALFORMED
    # The first records of a file.
    from windlass.importing.base import Records as Records
    # What stands in the place of words that a program did not record.
    from windlass.importing.base import UNRECORDED as UNRECORDED
    # Return a call of a tool in OpenAI's chat form; arguments may be text already.
    from windlass.importing.base import chat_call as chat_call
    # Return the result of a call in OpenAI's chat form, with a mark if it failed.
    from windlass.importing.base import chat_result as chat_result
    # Return an amount in US dollars; None for anything that is not a number above 0.
    from windlass.importing.base import dollars_of as dollars_of
    # Return a model as `provider/model`; `provider` where its name has none.
    from windlass.importing.base import model_of as model_of
    # Return a JSON object; an empty one in the place of anything else.
    from windlass.importing.base import object_of as object_of
    # Return the messages of a list in a form, the pieces of each answer as one.
    from windlass.importing.base import read_list as read_list
    # Return a whole number shared out in the proportion of weights: the shares add up to it.
    from windlass.importing.base import shares as shares
    # Return the text under the first of the keys that has one; empty where none has.
    from windlass.importing.base import text_of as text_of
    # Seconds since 1970: of an ISO time, or a number of seconds, milli-, micro- or nanoseconds.
    from windlass.importing.base import time_of as time_of
    # Calls that a file bills without telling what they said: one call, beside a recording.
    from windlass.importing.base import unseen as unseen
    # Return a usage in any provider's words; None where it is not one, or an impossible one.
    from windlass.importing.base import usage_of as usage_of
    # A usage of four counts, as a file has them; None where none of them is a number above 0.
    from windlass.importing.base import usage_of_counts as usage_of_counts
    # The records of a session as a tree, which may grow.
    from windlass.importing.claude_code import ClaudeTranscript as ClaudeTranscript
    # How the name of a side chain's file begins, which may lie beside that of its session.
    from windlass.importing.claude_code import SIDE_CHAIN as SIDE_CHAIN
    # Return a usage in Codex's words; like OpenAI's, its input includes what was cached.
    from windlass.importing.codex import usage_of_codex as usage_of_codex
    # One request, and what came back.
    from windlass.importing.exchanges import Exchange as Exchange
    # Puts exchanges together to conversations, in their order.
    from windlass.importing.exchanges import Exchanges as Exchanges
    # Return the exchange in a line of a log; None: it holds none.
    from windlass.importing.exchanges import exchange_of as exchange_of
    # The form of a request's body, by its keys and those of its answer; None: of no known form.
    from windlass.importing.exchanges import form_of_request as form_of_request
    # A format of files.
    from windlass.importing.formats import FileFormat as FileFormat
    # A file of records; `skipped` counts by reason what was left out of it as it was read.
    from windlass.importing.json_files import NamedFile as NamedFile
    # A file of JSON lines, or of one JSON text.
    from windlass.importing.json_files import RecordedFile as RecordedFile
    # One call of a model.
    from windlass.importing.recording import RecordedCall as RecordedCall
    # A conversation as another program recorded it.
    from windlass.importing.recording import Recording as Recording
    # The key in a session's definition under which it says from what it was imported.
    from windlass.importing.storing import IMPORTED as IMPORTED
    # The key below `IMPORTED` with the folder in which the program worked, where it was recorded.
    from windlass.importing.storing import PROJECT as PROJECT
    # A result that was shortened before its model saw it: the transcript has the short form.
    from windlass.importing.storing import ShownShort as ShownShort
    # A recording in the store, with the calls that no other session there has.
    from windlass.importing.storing import StoredSession as StoredSession
    # The session that has each answer of another program's recording, by the answer's id.
    from windlass.importing.storing import answers_in as answers_in
    # What a session was imported from, and how good its evidence is; empty: not imported.
    from windlass.importing.storing import evidence_text as evidence_text
    # What a session's definition (`SessionStart.cascade`) says of its import; empty: no import.
    from windlass.importing.storing import imported_from as imported_from
    # Store a recording as a session, or the part of it that is not stored yet.
    from windlass.importing.storing import store_recording as store_recording
    # Yield the recordings of a file, or of all files in a folder and its folders.
    from windlass.importing.streams import recordings as recordings
    # The nodes of a file, in the order in which they were added.
    from windlass.importing.tree import ConversationTree as ConversationTree
    # One step of a conversation: an answer with its pieces, or messages that came together.
    from windlass.importing.tree import Node as Node
    # Adds one named block to the prompt.
    from windlass.injectors.base import Injector as Injector
    # What an injector may look at.
    from windlass.injectors.base import Situation as Situation
    # How long a block stays unchanged, and so where it is placed in a request.
    from windlass.injectors.base import Tier as Tier
    # What a request cost, or several together.
    from windlass.ledger.charges import Charge as Charge
    # Yield each request of these sessions: the columns of its row, and its charge.
    from windlass.ledger.charges import charges_of as charges_of
    # Return the session of `names` that each session counts with: itself, or the one it ran
    # under.
    from windlass.ledger.charges import roots_of as roots_of
    # The charges added up by key, in the order in which keys come; `line` makes an empty sum.
    from windlass.ledger.charges import sums_by as sums_by
    # Return the charges added up.
    from windlass.ledger.charges import total_of as total_of
    # The banks of a store.
    from windlass.memory.banks import Banks as Banks
    # One version of what is remembered under a key of a bank.
    from windlass.memory.banks import Memory as Memory
    # Texts by the words in them.
    from windlass.memory.matching import WordIndex as WordIndex
    # Return those of the items that belong to a task by their texts, the best first.
    from windlass.memory.matching import best_matches as best_matches
    # Return a text in pieces of whole paragraphs, each with the number of its first line, from 1.
    from windlass.memory.passages import split_text as split_text
    # One message, frozen and equal by content.
    from windlass.messages import Message as Message
    # A picture, known by the SHA-256 of its bytes; the bytes are fetched when it is sent.
    from windlass.messages import Picture as Picture
    # A piece of text.
    from windlass.messages import Text as Text
    # A request by the model to run a tool.
    from windlass.messages import ToolCall as ToolCall
    # What a model is told of a tool: name, purpose, and its parameters as JSON Schema.
    from windlass.messages import ToolSpec as ToolSpec
    # Return an assistant message, with the tools it calls.
    from windlass.messages import assistant as assistant
    # Return the one JSON text of `value`: sorted keys, no white space, ASCII only.
    from windlass.messages import canonical_json as canonical_json
    # `text` fit for UTF-8: halves of one character joined, a lone surrogate made U+FFFD.
    from windlass.messages import clean_text as clean_text
    # The message whose `to_dict` is `stored`.
    from windlass.messages import from_dict as from_dict
    # Return a user message of texts and pictures.
    from windlass.messages import user as user
    # What the engine must know about a model.
    from windlass.providers.base import ModelInfo as ModelInfo
    # Answers requests.
    from windlass.providers.base import Provider as Provider
    # What stands in front of the messages otherwise than it was recorded, in the model's tokens.
    from windlass.replays.named_policies import Head as Head
    # A policy of windows, and its name in tables.
    from windlass.replays.named_policies import ReplayPolicy as ReplayPolicy
    # Return the policies, each once and in order.
    from windlass.replays.named_policies import policies_of as policies_of
    # Return the policy that a user names as `windlass.cascade.policies.policy_of` says.
    from windlass.replays.named_policies import policy_of as policy_of
    # What a policy costs, and keeps in view, on a recording or on several, at some prices.
    from windlass.replays.outcomes import PolicyCost as PolicyCost
    # One recording under each policy at each of the prices.
    from windlass.replays.outcomes import RecordingReplay as RecordingReplay
    # Recordings under policies: each by itself, and all together in `totals`.
    from windlass.replays.outcomes import Replay as Replay
    # The bounds between which a figure lies; both are the same where it is exact.
    from windlass.replays.outcomes import Span as Span
    # What a policy costs, for people.
    from windlass.replays.outcomes import cost_text as cost_text
    # Yield what was replayed, what it cost, and what the columns of the table mean.
    from windlass.replays.outcomes import describe_replay as describe_replay
    # Yield what the figures are based on, and what they leave out.
    from windlass.replays.outcomes import list_notes as list_notes
    # Return the recording, where there is only one.
    from windlass.replays.outcomes import only_one as only_one
    # A share for people: `71 %`, or `71 - 73 %`.
    from windlass.replays.outcomes import percents as percents
    # The sums over recordings, for each policy at each of the prices.
    from windlass.replays.outcomes import totals_of as totals_of
    # Return what each policy costs and keeps in view.
    from windlass.replays.outcomes import totals_table as totals_table
    # The prices of each recording's own model.
    from windlass.replays.pricing import OWN as OWN
    # Return the prices, each once.
    from windlass.replays.pricing import check_prices as check_prices
    # Return the prices that a user names, for a recording with `model`.
    from windlass.replays.pricing import find_prices as find_prices
    # Yield the conversations of a session, without those below it.
    from windlass.replays.replayable import conversations_of as conversations_of
    # Return each recording under each policy at each of the prices.
    from windlass.replays.running import replay_all as replay_all
    # A session by itself: its calls and their bills.
    from windlass.report.account import Account as Account
    # A session's account, and those of the sessions under it, newest last.
    from windlass.report.account import AccountTree as AccountTree
    # Return what calls of a store's sessions would have cost that cost nothing.
    from windlass.report.account import free_calls as free_calls
    # A decision, validation or error of the session, in one line.
    from windlass.report.call_views import Note as Note
    # Return what people know a session by: its day and its first words.
    from windlass.report.call_views import title_of as title_of
    # The first words in some rows of a session, but for what was put in (a skill's text).
    from windlass.report.call_views import words_in as words_in
    # Return the user's first words in a session; its cascade's name where there are none.
    from windlass.report.call_views import words_of as words_of
    # A call, read back: the row of its reply, what it was sent, and what stood before it.
    from windlass.report.calls import Call as Call
    # One message of a call's window.
    from windlass.report.calls import SeenMessage as SeenMessage
    # Return the same of accounts that were read.
    from windlass.report.costs import cost_of as cost_of
    # What each phase of a session cost; models that cost nothing at the prices of `price_as`.
    from windlass.report.costs import session_cost as session_cost
    # One call explained: the policy in force, what it decided, and what that saved.
    from windlass.report.explanation import Explanation as Explanation
    # What became of one message at a call.
    from windlass.report.explanation import MessageDecision as MessageDecision
    # What is written out of a session.
    from windlass.report.exporting import ExportedSession as ExportedSession
    # Return a message without the credentials that can be told from the look of its texts.
    from windlass.report.exporting import redacted_message as redacted_message
    # A session of a store, read once.
    from windlass.report.inspected import InspectedSession as InspectedSession
    # How many calls a matrix has at most.
    from windlass.report.matrix import CALLS as CALLS
    # What became of a message at a call; `words` says it.
    from windlass.report.matrix import Cell as Cell
    # Messages by calls: what each call saw of each message.
    from windlass.report.matrix import Matrix as Matrix
    # Return one cell in a sentence, by places from 0.
    from windlass.report.matrix import cell_text as cell_text
    # Return the matrix of a session, from call `first` on.
    from windlass.report.matrix import matrix_of as matrix_of
    # A message in one call, and its share of the bill of the call's input.
    from windlass.report.paid import PaidMessage as PaidMessage
    # Where a call parts from the one before: what stood behind there, and had to be read anew.
    from windlass.report.prefix import PrefixBreak as PrefixBreak
    # Return what was done to one call, and what it says of that.
    from windlass.report.provider_edits import call_sentences as call_sentences
    # The files that Windlass writes itself: each of them is opened or replaced here.
    from windlass.safety import own_files as own_files
    # Return the text with what a terminal acts on written out.
    from windlass.safety.escaping import escaped as escaped
    # There is no such file.
    from windlass.safety.files import MissingFileError as MissingFileError
    # A file is not read.
    from windlass.safety.files import UnreadableError as UnreadableError
    # Return a regular file to read from.
    from windlass.safety.files import open_file as open_file
    # Return the bytes of a regular file, `most` of them at most.
    from windlass.safety.files import read_bytes as read_bytes
    # Return the text of a regular file of at most `most` bytes.
    from windlass.safety.files import read_text as read_text
    # Return the value of a JSON text.
    from windlass.safety.foreign import parse_json as parse_json
    # The value of a JSON text that a program recorded: a number that no float holds is null.
    from windlass.safety.foreign import parse_recorded as parse_recorded
    # Return the values of a TOML text.
    from windlass.safety.foreign import parse_toml as parse_toml
    # Return the whole number that a text is, of at most 18 digits (None: it is none).
    from windlass.safety.foreign import whole_number as whole_number
    # Import `packages` in here: logging and warnings are configured afterwards as before.
    from windlass.safety.imports import logging_unchanged as logging_unchanged
    # Whether somebody still waits for a piece of work.
    from windlass.safety.interrupting import Cancellation as Cancellation
    # A text that is not a regular expression.
    from windlass.safety.patterns import BadPattern as BadPattern
    # Return a text without the credentials that can be told from its own look.
    from windlass.safety.redaction import redacted as redacted
    # JSON data without credentials: in its texts, and under keys that name one.
    from windlass.safety.redaction import redacted_json as redacted_json
    # Return a text without credentials, also those that it gives to a name such as `API_KEY`.
    from windlass.safety.redaction import redacted_text as redacted_text
    # Return an address without name, password, query and keys in its path.
    from windlass.safety.redaction import redacted_url as redacted_url
    # Return a validator of jsonschema, of the draft that the schema names (2020-12 where none
    # is).
    from windlass.safety.schemas import validator_for as validator_for
    # A short view of one message.
    from windlass.selection.card import Card as Card
    # A store that has an address.
    from windlass.settings.fields import StoreAddress as StoreAddress
    # The settings of one command; `settings["store"]` is one of them with its origin.
    from windlass.settings.settings import Settings as Settings
    # The key by which the definition of a session is known to be a task file.
    from windlass.tasks.model import OPERATORS as OPERATORS
    # Return the task in an XML text, with all that was found to be wrong in it.
    from windlass.tasks.parse import read_task as read_task
    # What stands in each column of something, by the heads of the columns.
    from windlass.text.cell_tables import Columns as Columns
    # A number as a table writes it: aligned to the right, and never folded.
    from windlass.text.cell_tables import NumberCell as NumberCell
    # Return a row for each item.
    from windlass.text.cell_tables import table_of as table_of
    # From where to where a figure lies, in 95 of 100 cases.
    from windlass.text.intervals import Interval as Interval
    # The interval of the mean of some values less that of others, which are no pairs of them.
    from windlass.text.intervals import difference_of_means as difference_of_means
    # Return the picture whose file is `data`.
    from windlass.text.pictures import picture as picture
    # Return the beginning of what the user said first, in one line of at most so many characters.
    from windlass.text.titles import first_words as first_words
    # Counts for a hosted model by its family; remembers each message's count.
    from windlass.text.tokens import FamilyCounter as FamilyCounter
    # Return about how many of a model's tokens one neutral token is.
    from windlass.text.tokens import neutral_scale as neutral_scale
    # Tokens of a message by a neutral count: characters / 4, 4 a message, 1,105 a picture.
    from windlass.text.tokens import size as size
    # Which paths a tool may touch: the one place that says no.
    from windlass.tools import paths as paths
    # A registered tool.
    from windlass.tools.base import Tool as Tool
    # What a tool may use of the run.
    from windlass.tools.base import ToolContext as ToolContext
    # A tool's result: text, pictures, whether it is a failure, and what a model took for it.
    from windlass.tools.base import ToolOutput as ToolOutput
    # .
    from windlass.tools.mcp import INSTALL as INSTALL
    # Mark a function as a tool of its module, by its own name or another.
    from windlass.tools.registry import tool as tool
    # Messages as they come, and what each call sees of them.
    from windlass.window.conversation import Conversation as Conversation
    # What an edit is an instance of, for the record and for people.
    from windlass.window.entries import Because as Because
    # Show `replacement` in place of the occurrences `ids`, a span of them, from now on.
    from windlass.window.entries import Fold as Fold
    # A message as it occurred: `id` names the occurrence in its session.
    from windlass.window.entries import Item as Item
    # Show `replacement` in place of the occurrence `id`, from now on.
    from windlass.window.entries import Replace as Replace
    # Return the arguments; none where they are no JSON object.
    from windlass.window.kinds import arguments_of as arguments_of
    # All options of a window.
    from windlass.window.options import Policy as Policy
    # What a reference begins with; the content hash of the message follows, or its beginning.
    from windlass.window.originals import REF as REF
    # Return a message as text: its words, its calls, and a description of each picture.
    from windlass.window.originals import as_text as as_text
    # Return the lines of a text in which a pattern is found, each with its number.
    from windlass.window.originals import matching_lines as matching_lines
    # Return what a message is asked for by.
    from windlass.window.originals import reference as reference
    # Return what the message with this content hash is asked for by.
    from windlass.window.originals import reference_to as reference_to
    # What stands at a path.
    from windlass.window.originals import text_at as text_at
    # Decides which edits to make at a call, by what they cost and save.
    from windlass.window.planner import Planner as Planner
    # Puts one message in the place of all that was said before, at moments when that is free.
    from windlass.window.policies.free_moments import FreeMoments as FreeMoments
    # When one message takes the place of the earlier conversation, and how much it keeps.
    from windlass.window.policies.free_moments import FreeMomentsOptions as FreeMomentsOptions
    # How messages are counted, what is known of their tools, and what must stay.
    from windlass.window.window_rules import WindowRules as WindowRules
    # What the formats share: ids, names and arguments of calls, pictures, opaque parts.
    from windlass.wire import calls as calls
    # The names of OpenTelemetry's conventions for GenAI: attributes, metrics, providers.
    from windlass.wire import genai_names as genai_names
    # Why a reply ended.
    from windlass.wire.base import Finish as Finish
    # What came back.
    from windlass.wire.base import Reply as Reply
    # One call, complete.
    from windlass.wire.base import Request as Request
    # Tokens as the provider reported them.
    from windlass.wire.base import Usage as Usage
    # fmt: on

_IMPORT: Final = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


@cache
def homes() -> dict[str, str]:
    """Return the module that holds each public name: the list above, which stands once."""
    return {name: home for home, name in _IMPORT.findall(Path(__file__).read_text("utf-8"))}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name from its home."""
        if (home := homes().get(name)) is None:
            raise AttributeError(f"{name!r} is no public name of Windlass: see windlass/public.py")
        module = import_module(home)
        # A module in a package is no attribute of it before it is loaded.
        value = vars(module)[name] if name in vars(module) else import_module(f"{home}.{name}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(homes())
