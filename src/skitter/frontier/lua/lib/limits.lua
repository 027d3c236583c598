--[[
limits: the desired state and the limits of the job, as a table. A job without a state was purged or
never created: the script stops, so that a late worker cannot bring back its keys.

`read_control` reads what the script names as `limits.name`: scripts.py. Limits are numbers, mostly
infinite if not set; facts (`born`, `lifo`, ...) are text, or false.

KEYS   control  hash   state and limits; an absent field means no limit
]]
local limits = read_control(control)
if not limits.state or limits.state == 'purge' then error({ err = 'GONE ' .. control }) end

limits.running = limits.state == 'run' or limits.state == 'drain'
limits.open = limits.state == 'run' or limits.state == 'pause'

-- For max_pending and max_items, which shards share evenly; for max_pages see budget.lua.
local function own_part(limit) return math.ceil(limit / (tonumber(limits.shards) or 1)) end
