--[[
score: priority and order of arrival in one zset score; the lowest is served first.

A double is exact up to 2^53: 40 bits count arrivals, 12 and a sign hold the priority.
Each arrival of a request and each turn of a host draws a ticket.
]]
--@include counters limits
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
