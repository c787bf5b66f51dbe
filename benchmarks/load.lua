-- What wrk sends and counts, for serve.py: wrk … -s load.lua ADDRESS -- BODIES SECONDS
--
-- One JSON body a line in BODIES, sent in turn. After SECONDS nothing more is sent, and wrk ends when all is answered:
-- so what was sent and what was answered can be compared to the last request. Clients that are refused wait as long as
-- they are told. Meant for one thread (-t1).
local ffi = require("ffi")
ffi.cdef("typedef struct { long seconds, nanoseconds; } moment; int clock_gettime(int clock, moment *now);")
ffi.cdef("int getpid(void); int kill(int process, int signal);")
local MONOTONIC, INTERRUPT = 1, 2
local now = ffi.new("moment")

local bodies, seconds, start = {}, 0, nil
local waits = {} -- seconds, of refusals whose clients have not begun to wait
local awake = 0 -- when the last of those who wait comes again
sent, answered, last, without_retry = -1, 0, 0, 0 -- -1: wrk asks for one request to look at before it begins
statuses = {}

local function elapsed()
   ffi.C.clock_gettime(MONOTONIC, now)
   local moment = tonumber(now.seconds) + tonumber(now.nanoseconds) / 1e9
   start = start or moment
   return moment - start
end

local threads = {}

function setup(thread)
   table.insert(threads, thread)
end

function init(arguments)
   for line in io.lines(arguments[1]) do
      table.insert(bodies, wrk.format("POST", "/v2/translate", { ["Content-Type"] = "application/json" }, line))
   end
   seconds = tonumber(arguments[2])
end

-- wrk asks before every request, so after every answer too. It does not say for whom: somebody waits for each refusal.
function delay()
   if elapsed() < seconds then
      local wait = table.remove(waits) or 0
      awake = math.max(awake, elapsed() + wait)
      return 1000 * wait
   end
   if answered == sent and elapsed() > awake then
      ffi.C.kill(ffi.C.getpid(), INTERRUPT) -- wrk sleeps for all the time it was given, unless it is interrupted
   end
   return 3600 * 1000
end

function request()
   sent = sent + 1
   return bodies[sent % #bodies + 1]
end

function response(status, headers)
   answered, last = answered + 1, elapsed()
   local key = tostring(status)
   statuses[key] = (statuses[key] or 0) + 1
   if status == 503 or status == 429 then
      local wait = tonumber(headers["retry-after"])
      without_retry = without_retry + (wait and 0 or 1)
      table.insert(waits, wait)
   end
end

function done(summary, latency)
   local thread, counts = threads[1], {}
   for status, count in pairs(thread:get("statuses")) do
      table.insert(counts, string.format('"%s": %d', status, count))
   end
   local errors = summary.errors
   io.write(string.format(
      '\n{"sent": %d, "answered": %d, "last_answer": %.3f, "without_retry_after": %d, "statuses": {%s}, '
         .. '"socket_errors": {"connect": %d, "read": %d, "write": %d, "timeout": %d}, '
         .. '"p50": %.1f, "p95": %.1f, "p99": %.1f, "longest": %.1f}\n',
      thread:get("sent"), thread:get("answered"), thread:get("last"), thread:get("without_retry"),
      table.concat(counts, ", "), errors.connect, errors.read, errors.write, errors.timeout,
      latency:percentile(50) / 1000, latency:percentile(95) / 1000, latency:percentile(99) / 1000, latency.max / 1000
   ))
end
