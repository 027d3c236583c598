--[[
score: the order of requests in a queue, and marks of how long they waited.

score: priority and order of arrival in one zset score; the lowest is served first.

A double is exact up to 2^53: 40 bits count arrivals, 12 and a sign hold the priority.
Each arrival of a request and each turn of a host draws a ticket.

mark_arrivals: note now and then what the time was when a ticket was drawn, for waits.lua.

KEYS   marks    zset   ms -> the last ticket drawn before
]]
--@include counters limits clock
local TICKETS = 2 ^ 40
local issued = read_counter('ticket')

local function draw_ticket()
  local drawn = (changes.ticket or 0) + 1
  changes.ticket = drawn
  return issued + drawn
end

local function score_of(priority, ticket)
  return -priority * TICKETS + ticket
end

-- The highest score that a request of this priority can have.
local function last_score(priority)
  return (1 - priority) * TICKETS - 1
end

-- An arrival's place within its priority: behind all others, or in front of them.
local function place_in_line(ticket)
  return limits.lifo == '1' and TICKETS - 1 - ticket or ticket
end

local function priority_of(score)
  return -math.floor(score / TICKETS)
end

local APART_MS, MAX_MARKS = 50, 500

-- Drop every other mark of the older half: the older they are, the further apart.
local function thin_out()
  if (tonumber(redis.pcall('ZCARD', marks)) or 0) <= MAX_MARKS then return end
  local oldest = redis.call('ZRANGE', marks, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, MAX_MARKS / 2)
  for i, mark in ipairs(oldest) do
    if i % 2 == 0 then redis.call('ZREM', marks, mark) end
  end
end

local function mark_arrivals()
  local last = tonumber(redis.pcall('ZRANGE', marks, 0, 0, 'REV')[1])
  if last and now_ms - last < APART_MS then return end
  redis.pcall('ZADD', marks, issued, as_int(now_ms))
  thin_out()
end
