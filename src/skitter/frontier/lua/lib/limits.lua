--[[
limits: the desired state and the limits of the job, as a table. A job without a state does not
exist: it was purged, or never made, and a worker that comes late must not bring keys of it back.
max_pending and max_items are shared out evenly; how max_pages is, budget.lua tells.

`read_control` reads what the script names as `limits.name`: scripts.py. Limits are numbers, and
infinite where there is none; facts (`born`, `lifo`, ...) are text, or false.

KEYS   control  hash   state and limits; an absent limit is none
]]
local limits = read_control(control)
if not limits.state or limits.state == 'purge' then error({ err = 'GONE ' .. control }) end

limits.running = limits.state == 'run' or limits.state == 'drain'
limits.open = limits.state == 'run' or limits.state == 'pause'

-- Of what is shared out evenly among the shards.
local function own_part(limit) return math.ceil(limit / (tonumber(limits.shards) or 1)) end
