--[[
feedback: what a page taught us: a host's rest, a session, an outcome, a shape's worth.

block: let a host rest. A longer rest already in effect stays.

learn_session: store what an attempt learned about its session: cookies set or expired, whether it
was refused, whether it was logged out. A session retired meanwhile learns nothing more.

pages: the outcome of the latest pages, for `skitter why`.

rendering: count per shape whether its pages need a browser: plain HTML was enough (plain), only a
browser found more (browser), or neither found anything (neither). Keeps about 30,000 shapes; at 64
pages the counts of a shape are halved, so that old observations fade as sites change.

yield: credit what a page yielded to its shape and to that of the page that led to it. A shape that
has yielded enough gets its held URLs back.

feedback: what an attempt learned besides its result: model.Feedback as msgpack, or empty. Each kind
has a field there and a line here.

KEYS   pages    hash   `new` and `old`: fingerprint -> `second client facts`
       rendering  hash   `shape what` -> pages
]]
--@include clock lane session bulk shapes free delay adapt revisit archived
local function block(name, for_ms)
  if for_ms <= 0 then return end
  local known = host(clock_name(name))
  known.blocked_until = math.max(known.blocked_until, now_ms + for_ms)
end

local function learn_session(said)
  local found = read_pool(said.name)
  local one = find_live(found, said.number or 0)
  local is_new = not one and (said.number or 0) == 0 and said.fields
  if is_new then one = begin_session(found) end
  if not one then return end
  if is_new or said.errors then
    one[4] = math.max(0, one[4] + (said.errors or 0))
    write_pool(said.name, found)
  end
  local key = key_of(said.name, one)
  if said.fields or said.gone then write_session(key, said.fields or {}, said.gone or {}) end
  -- Only if the login is still the one the attempt used: another worker may have logged in since.
  if said.logged_out and redis.call('HGET', key, 'login') == tostring(said.logged_out) then
    redis.call('HDEL', key, 'login')
    redis.call('HINCRBY', key, 'v', 1)
  end
end

local PAGES_KEPT = 100000
local done_pages = {}

local function learn_page(claim, facts)
  local client = string.match(ARGV[claim.at + 1], '^(.+)%.[^.]*%.[^.]*$') or '?'
  done_pages[#done_pages + 1] = claim.fp
  done_pages[#done_pages + 1] = math.floor(wall_ms / 1000) .. ' ' .. client .. ' ' .. facts
end

local function write_pages()
  keep_newest(pages, done_pages, PAGES_KEPT)
end

local function learn_rendering(said)
  local count = tonumber(redis.call('HGET', rendering, said)) or 0
  if count == 0 and redis.call('HLEN', rendering) >= 90000 then return end
  redis.call('HSET', rendering, said, count + 1)
  if count + 1 < 64 then return end
  for _, what in ipairs({ ' plain', ' browser', ' neither' }) do
    local name = string.match(said, '^%S*') .. what
    count = tonumber(redis.call('HGET', rendering, name)) or 0
    redis.call('HSET', rendering, name, math.floor(count / 2))
  end
end

local function learn_yield(claim, said)
  if limits.shape_budget == math.huge then return end
  for number, credit in pairs(said.yields) do
    local entry, own = shape(claim.host, tonumber(number))
    local doublings = entry[2]
    entry[3] = entry[3] + math.max(0, credit)
    free_shape(own, grow(entry))
    if entry[2] > doublings then look_anew(look_name(claim.host, own)) end
  end
  write_shapes()
end

local function learn(claim, packed)
  if packed == '' then return end
  local said = cmsgpack.unpack(packed)
  if said.left_ms then put_off(claim.host, math.min(said.left_ms, now_ms + 1)) end
  if said.rest_ms then block(claim.host, said.rest_ms) end
  if said.latency_ms or said.incident then learn_delay(claim, said) end
  if said.rendering then learn_rendering(said.rendering) end
  if said.page then learn_page(claim, said.page) end
  if said.session then learn_session(said.session) end
  if said.yields then learn_yield(claim, said) end
  if said.archived then redis.call('SADD', archived, said.archived) end
  if said.cached then count('cached', 1) end
  if said.unused_ms then give_turn_back(claim.host, said.unused_ms) end
  if said.emptied then
    redis.call('XADD', items, '*', 'fp', claim.fp, 'n', -1, 'item', said.emptied)
  end
  if said.revisit then learn_revisit(claim, said.revisit) end
end
