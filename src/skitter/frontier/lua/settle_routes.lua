--[[
settle_routes: report how requests fared on their routes, and read what is known about routes now. A
repeated call counts nothing twice.

FLAGS  allow-oom
KEYS   routes   hash   route:field -> a number
       flights  zset   place -> ms; by route
       recent   hash   verb -> number of this client's last call; a repeat gets current figures
ARGV   seq      int    the client's number for this call
       domain   text   one more domain to report on, besides those settled; empty: none
EACH   place    text   the one given to take_routes; empty: the route has no limits
       route    text
       name     text   domain
       verdict  text   good, ban, page (the page's fault), fault (the proxy's), or unused
       figures  text   `bytes money reserved_bytes reserved_money ms`
REPLY  list   server ms, the routes as field and number, then domain and record for each domain
COST   O(requests * routes)
]]
--@include routes
local REMEMBER_MS = 600000
local FIGURES = '^(%d+) (%d+) (%d+) (%d+) (%d+)$'

local function read_row(at)
  local bytes, money, reserved_bytes, reserved_money, ms = string.match(ARGV[at + 4], FIGURES)
  return { place = ARGV[at], route = ARGV[at + 1], domain = ARGV[at + 2], verdict = ARGV[at + 3],
    bytes = tonumber(bytes), money = tonumber(money), ms = tonumber(ms),
    reserved = { tonumber(reserved_bytes), tonumber(reserved_money) } }
end

local function add(row, field, by)
  if by ~= 0 then redis.call('HINCRBY', routes, row.route .. ':' .. field, by) end
end

local function pay(row)
  if row.place ~= '' then redis.call('ZREM', flights .. row.route, row.place) end
  local used = row.verdict ~= 'unused'
  add(row, 'sent', row.place == '' and (used and 1 or 0) or (used and 0 or -1))
  add(row, 'bytes', row.bytes - row.reserved[1])
  add(row, 'money', row.money - row.reserved[2])
  if used then add(row, row.verdict, 1) end
end

local known = {}
if domain ~= '' then known[domain] = read_arms(domain) end
local last = tonumber(string.match(redis.call('HGET', recent, verb) or '', '^%d+')) or 0
if last > seq then error({ err = 'STALE this call was overtaken by a later one' }) end
local is_new = last < seq
for at = EACH.start, #ARGV, EACH.stride do
  local row = read_row(at)
  known[row.domain] = known[row.domain] or read_arms(row.domain)
  if is_new then
    pay(row)
    note_health(row)
    if row.verdict ~= 'fault' and row.verdict ~= 'unused' then
      learn(known[row.domain], row.route, row)
      known[row.domain].is_changed = true
    end
  end
end
if is_new then
  redis.call('HSET', recent, verb, string.format('%d ', seq) .. cmsgpack.pack(1))
  redis.call('PEXPIRE', recent, REMEMBER_MS)
end
local reply = { string.format('%d', now_ms), redis.call('HGETALL', routes) }
for name, record in pairs(known) do
  if record.is_changed then write_arms(name, record) end
  reply[#reply + 1] = name
  reply[#reply + 1] = cmsgpack.pack(record)
end
return reply
